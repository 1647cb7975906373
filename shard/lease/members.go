// Package lease implements the members of a tier that discover each other in Redis. Each announces
// itself with a lease, which it renews, and reads the other members in the same call.
//
// A view can be wrong for a while, which costs streams but never affects what clients receive. So
// an unclear situation changes nothing: without Redis no member is added or removed, and after an
// outage each member has the time of a lease to renew.
//
// # Files
//
//	members     members.go (the API), run.go (renewals), book.go (known members and their leases)
//	records     script.go (format in Redis and its scripts), sign.go (signatures)
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
	// Self is this node. Name and Peer are required; an empty Incarnation or Since is filled in.
	Self shard.Member
	// Store is the Redis of the tier.
	Store *store.Store
	// Lease is how long a node remains a member without renewal. The same on all nodes, at least
	// 100ms.
	Lease time.Duration
	// Token signs the record of this node. Only nodes whose records it has signed are members:
	// others may write to Redis, too. Nil if peers authenticate by certificates.
	Token *secure.Token
	// Logger logs nodes that join and leave.
	Logger *slog.Logger
}

// Members are the nodes of a tier, including this one.
type Members struct {
	// Fixed after construction.
	cfg     Config
	renew   *store.Script
	leave   *store.Script
	name    string // of the hash in Redis
	current *shard.Current
	cancel  context.CancelFunc
	ended   chan struct{} // closed once the loop has ended
	wake    chan struct{} // of size one: there is a change to announce

	calling chan struct{} // full during a call that renews: one at a time

	mu sync.Mutex
	// Guarded by mu.
	self    shard.Member // with its last announced status
	urgent  bool         // self has a change to announce at once
	entered bool         // others may see this node
	left    bool         // Leave was called
	closed  bool
	taken   bool // the name belongs to another node
	// foreign are records that no node of the tier has signed, a few of them.
	foreign      []string
	foreignSince time.Time
	book         book
}

// Join makes cfg.Self a member, which others see after Enter. It does not wait for Redis.
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
		renew:   store.NewScript("node_renew", renewScript),
		leave:   store.NewScript("node_leave", leaveScript),
		name:    cfg.Store.Name(store.MemberRecords, "members"),
		current: shard.NewCurrent(cfg.Self),
		calling: make(chan struct{}, 1),
		cancel:  cancel,
		ended:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		self:    cfg.Self,
		book:    book{lease: cfg.Lease, known: make(map[string]entry)},
	}
	go m.run(ctx)
	return m, nil
}

// Self returns this node, with its last announced status.
func (m *Members) Self() shard.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// View returns the members, always with this node. If another node with the same name started
// later, the view has that one instead.
func (m *Members) View() *shard.View { return m.current.View() }

// Changed returns a channel that is closed when View changes.
func (m *Members) Changed() <-chan struct{} { return m.current.Changed() }

// Heard returns when Redis last answered with the members; before the first answer, when this node
// started.
func (m *Members) Heard() time.Time { return m.current.Heard() }

// Answered reports whether Redis has ever answered with the members.
func (m *Members) Answered() bool { return m.current.Answered() }

// Missing returns nil: a member that disappeared may have ended, and another may have replaced it.
func (m *Members) Missing() []shard.Missing { return nil }

// Left reports whether a member announced its end.
func (m *Members) Left(one shard.Member) bool { return m.current.Left(one) }

// Enter announces this node to the others.
func (m *Members) Enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entered = true
	m.wakeLocked()
}

// wakeLocked makes the loop call at once. It requires mu.
func (m *Members) wakeLocked() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Announce sends the status of this node to the others: with the next renewal, or at once if it
// moves keys, or ends its sharded hints.
func (m *Members) Announce(now shard.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.announceLocked(now)
}

// announceLocked requires mu.
func (m *Members) announceLocked(now shard.Status) {
	now.Draining = now.Draining || m.left
	before := m.self.Status
	m.self.Status = now
	m.showLocked()
	if before.Draining != now.Draining || before.Cut != now.Cut || before.Cold != now.Cold || before.Sharded && !now.Sharded {
		m.urgent = true
		m.wakeLocked()
	}
}

// Leave announces that this node owns nothing any more. It waits until Redis has the announcement,
// or ctx ends.
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
			return fmt.Errorf("members: leave: %w; the other nodes notice when the lease expires, after %s", err, m.cfg.Lease)
		}
	}
}

// Close ends the membership. After Leave the others see that at once, otherwise when the lease
// ends.
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

// showLocked updates the view. It requires mu.
func (m *Members) showLocked() { m.current.Set(append(m.book.members(), m.self)) }

// record returns the record of a member, which others read.
func record(m shard.Member) (string, error) {
	text, err := json.Marshal(m)
	if most := maxRecord - secure.SignatureSize; err == nil && len(text) > most {
		err = fmt.Errorf("the node's own record takes %d bytes, expected %d at most", len(text), most)
	}
	return string(text), err
}
