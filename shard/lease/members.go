// Package lease is the members of a tier that find one another in Redis. Each
// announces itself with a lease, which it renews, and reads who else is there in the
// same call.
//
// A view can be wrong for a while, which costs streams and never what clients see.
// So what is unclear leaves it as it is: without Redis nobody comes or goes, and
// after that all get the time of a lease to say that they are still there.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

var _ shard.Members = (*Members)(nil)

// Config is how a node joins a tier.
type Config struct {
	// Self is this node. Name and Peer are required; what is empty of Incarnation
	// and Since is filled in.
	Self shard.Member
	// Store is the Redis of the tier.
	Store *store.Store
	// Lease is how long a node counts of which nothing is heard any more. The same
	// on all nodes, from 100ms.
	Lease time.Duration
	// Token signs what this node says of itself, and only nodes whose records it has
	// signed are members: others may write to Redis, too. Nil where peers prove by
	// certificates who they are.
	Token *secure.Token
	// Logger is informed of nodes that join and leave.
	Logger *slog.Logger
}

// Members are the nodes of a tier, with this one.
type Members struct {
	// Fixed after construction.
	cfg     Config
	renew   *store.Script
	leave   *store.Script
	name    string // of the hash in Redis
	current *shard.Current
	cancel  context.CancelFunc
	ended   chan struct{} // closed once the loop has ended
	kick    chan struct{} // of one: there is news to tell

	calling chan struct{} // full during a call that renews: one at a time

	mu sync.Mutex
	// Guarded by mu.
	self    shard.Member // with what was announced last
	news    bool         // of self that others should hear at once
	entered bool         // others may see this node
	left    bool         // Leave was called
	closed  bool
	taken   bool // the name belongs to another node
	// foreign are records that no node of the tier has signed, a few of them.
	foreign      []string
	foreignSince time.Time
	book         book
}

// Join makes cfg.Self a member, which others see once it has entered. It does not wait
// for Redis.
func Join(cfg Config) (*Members, error) {
	switch {
	case cfg.Self.Name == "" || cfg.Self.Peer == "":
		return nil, fmt.Errorf("members: the node is %q at %q, expected a name and an address", cfg.Self.Name, cfg.Self.Peer)
	case strings.ContainsAny(cfg.Self.Incarnation, " \n"):
		return nil, fmt.Errorf("members: the incarnation is %q, expected no spaces", cfg.Self.Incarnation)
	case cfg.Lease < 100*time.Millisecond:
		return nil, fmt.Errorf("members: the lease is %s, expected 100ms at least", cfg.Lease)
	case cfg.Store == nil || cfg.Logger == nil:
		return nil, errors.New("members: expected a store and a logger")
	}
	if cfg.Self.Incarnation == "" {
		cfg.Self.Incarnation = rand.Text()
	}
	if cfg.Self.Since.IsZero() {
		cfg.Self.Since = time.Now()
	}
	cfg.Self.Since = cfg.Self.Since.Truncate(time.Microsecond).UTC() // as others will read it
	if _, err := record(cfg.Self); err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Members{
		cfg:     cfg,
		renew:   store.NewScript("members.renew", renewScript),
		leave:   store.NewScript("members.leave", leaveScript),
		name:    cfg.Store.Name(store.MemberRecords, "members"),
		current: shard.NewCurrent(cfg.Self),
		calling: make(chan struct{}, 1),
		cancel:  cancel,
		ended:   make(chan struct{}),
		kick:    make(chan struct{}, 1),
		self:    cfg.Self,
		book:    book{lease: cfg.Lease, known: make(map[string]entry)},
	}
	go m.run(ctx)
	return m, nil
}

// Self is this node, with what it announced last.
func (m *Members) Self() shard.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// View is who is there, with this node in any case. Where another node goes by its
// name, and started later, that one stands there instead.
func (m *Members) View() *shard.View { return m.current.View() }

// Changed is closed when View has something new to say.
func (m *Members) Changed() <-chan struct{} { return m.current.Changed() }

// Heard is when Redis last said who is there; before it did, when this node began.
func (m *Members) Heard() time.Time { return m.current.Heard() }

// Answered reports whether Redis has ever said who is there.
func (m *Members) Answered() bool { return m.current.Answered() }

// Missing is nobody: who went may have ended, and another may have come for it.
func (m *Members) Missing() []shard.Missing { return nil }

// Left reports whether a member said that it would end.
func (m *Members) Left(one shard.Member) bool { return m.current.Left(one) }

// Enter announces this node to the others.
func (m *Members) Enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entered = true
	m.kickLocked()
}

// kickLocked makes the loop call at once. It needs mu.
func (m *Members) kickLocked() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// Announce tells the others of this node: with the next renewal, and at once what
// moves keys, or keeps hints from it.
func (m *Members) Announce(now shard.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.announceLocked(now)
}

// announceLocked needs mu.
func (m *Members) announceLocked(now shard.Status) {
	now.Draining = now.Draining || m.left
	before := m.self.Status
	m.self.Status = now
	m.showLocked()
	if before.Draining != now.Draining || before.Cut != now.Cut || before.Cold != now.Cold || before.Sharded && !now.Sharded {
		m.news = true
		m.kickLocked()
	}
}

// Leave says that this node owns nothing any more, and waits until Redis has it, or
// ctx is over.
func (m *Members) Leave(ctx context.Context) error {
	m.mu.Lock()
	m.left = true
	m.announceLocked(m.self.Status)
	m.mu.Unlock()
	for {
		err := m.call(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(m.soon()):
		case <-ctx.Done():
			return fmt.Errorf("members: leave: %w; the others see it when the lease ends, after %s", err, m.cfg.Lease)
		}
	}
}

// Close ends the membership. After Leave the others see at once that this node has
// gone, else when its lease ends.
func (m *Members) Close() {
	m.mu.Lock()
	first, left := !m.closed, m.left
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	<-m.ended
	if !first || !left {
		return
	}
	// If it fails, the lease ends.
	_, _ = m.cfg.Store.Run(context.Background(), m.leave, []string{m.name}, m.cfg.Self.Name, m.cfg.Self.Incarnation, m.cfg.Store.Channel(store.MemberHints), leftFor)
}

// showLocked makes the view anew. It needs mu.
func (m *Members) showLocked() { m.current.Set(append(m.book.members(), m.self)) }

// record is what others read of a member.
func record(m shard.Member) (string, error) {
	text, err := json.Marshal(m)
	if most := maxRecord - secure.SignatureSize; err == nil && len(text) > most {
		err = fmt.Errorf("what the node says of itself takes %d bytes, expected %d at most", len(text), most)
	}
	return string(text), err
}
