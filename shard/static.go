package shard

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/events"
)

var _ Members = (*Static)(nil)

// StaticConfig is a list of nodes.
type StaticConfig struct {
	// Self is this node.
	Self Member
	// Others are the other nodes of the list, with names and addresses.
	Others []Member
	// Lease is how long a node that does not answer remains a member. More than zero.
	Lease time.Duration
	// Probe requests the status of a node. It is called for several nodes concurrently, with a
	// deadline.
	Probe func(context.Context, Member) (Status, error)
	// Logger logs nodes that join and leave.
	Logger *slog.Logger
}

// Static are the members of a list; those that answer are in the view. All methods are safe for
// concurrent use.
type Static struct {
	// Fixed after construction.
	cfg     StaticConfig
	current *Current
	cancel  context.CancelFunc
	probes  sync.WaitGroup

	mu sync.Mutex
	// Guarded by mu.
	self   Member
	left   bool
	others []listed
}

// listed is a node of the list.
type listed struct {
	member Member
	heard  time.Time // when it last answered
	gone   bool      // that was more than a lease ago
	why    error     // why it does not answer
}

// NewStatic creates the members of a list. All of them are in the view at first, so that no key
// moves when a node starts.
func NewStatic(cfg StaticConfig) (*Static, error) {
	if cfg.Lease <= 0 || cfg.Probe == nil || cfg.Logger == nil {
		return nil, fmt.Errorf("members: expected a lease, got %s, a probe and a logger", cfg.Lease)
	}
	if i := slices.IndexFunc(cfg.Others, func(m Member) bool { return m.Name == cfg.Self.Name }); i >= 0 {
		return nil, fmt.Errorf("members: this node, %q, is among the others", cfg.Self.Name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Static{cfg: cfg, current: NewCurrent(append(slices.Clone(cfg.Others), cfg.Self)...), cancel: cancel, self: cfg.Self}
	for _, m := range cfg.Others {
		s.others = append(s.others, listed{member: m, heard: time.Now()})
	}
	for i := range s.others {
		s.probes.Go(func() { s.watch(ctx, i) })
	}
	return s, nil
}

// Self returns this node, with its last announced status.
func (s *Static) Self() Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.self
}

// View returns the nodes that have answered within the lease, and always this node.
func (s *Static) View() *View { return s.current.View() }

// Changed returns a channel that is closed when View changes.
func (s *Static) Changed() <-chan struct{} { return s.current.Changed() }

// Heard returns when another node last answered, or the present time if there are no others.
func (s *Static) Heard() time.Time {
	if len(s.cfg.Others) == 0 {
		return time.Now()
	}
	return s.current.Heard()
}

// Answered reports whether any other node of the list has answered, or there is none.
func (s *Static) Answered() bool { return len(s.cfg.Others) == 0 || s.current.Answered() }

// Missing returns the nodes of the list that have not answered within the lease.
func (s *Static) Missing() (all []Missing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.others {
		if o.gone {
			all = append(all, Missing{Member: o.member, Heard: o.heard, Err: o.why})
		}
	}
	return all
}

// Left reports whether a node of the list was draining when it last answered.
func (s *Static) Left(m Member) bool { return s.current.Left(m) }

// Enter does nothing: the others probe this node, which answers once it is reachable.
func (s *Static) Enter() {}

// Announce changes the status in Self, which the others request.
func (s *Static) Announce(now Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now.Draining = now.Draining || s.left
	s.self.Status = now
	s.showLocked()
}

// Leave announces that this node owns nothing any more, and waits until the others have had the
// time to request its status.
func (s *Static) Leave(ctx context.Context) error {
	s.mu.Lock()
	s.left = true
	s.mu.Unlock()
	s.Announce(s.Self().Status)
	if len(s.cfg.Others) == 0 {
		return nil
	}
	select {
	case <-time.After(s.every() * 5 / 4):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("members: leave: %w; the others see it when they ask next, within %s", ctx.Err(), s.every()*5/4)
	}
}

// Close stops probing the others.
func (s *Static) Close() {
	s.cancel()
	s.probes.Wait()
}

// every returns the interval between probes of a node, without its jitter of a tenth. With a long
// lease it is short enough that all others see a node drain within [LeaveTime].
func (s *Static) every() time.Duration { return min(s.cfg.Lease/3, LeaveTime*3/4) }

// watch probes a node until ctx ends.
func (s *Static) watch(ctx context.Context, i int) {
	m := s.cfg.Others[i]
	for {
		next := time.After(s.every()*9/10 + rand.N(s.every()/5+1))
		within, cancel := context.WithTimeout(ctx, s.cfg.Lease/3)
		status, err := s.cfg.Probe(within, m)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.note(i, status, err)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// note records the result of a probe.
func (s *Static) note(i int, status Status, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	o := &s.others[i]
	o.why = err
	if err == nil {
		o.heard = now
		o.member.Status = status
		s.current.Hear(now)
	}
	if gone := now.Sub(o.heard) >= s.cfg.Lease; gone != o.gone {
		o.gone = gone
		switch {
		case !gone:
			s.cfg.Logger.Info("node joined the tier", events.Key, events.NodeJoined, "member", o.member.Name, "peer", o.member.Peer)
		case o.member.Draining:
			s.cfg.Logger.Info("node left the tier", events.Key, events.NodeLeft, "member", o.member.Name, "peer", o.member.Peer)
		default:
			s.cfg.Logger.Warn("node disappeared from the tier without draining: it does not answer", events.Key, events.NodeDisappeared, "member", o.member.Name, "peer", o.member.Peer, "error", err)
		}
	}
	s.showLocked()
}

// showLocked updates the view. It requires mu.
func (s *Static) showLocked() {
	members := []Member{s.self}
	for _, o := range s.others {
		if !o.gone {
			members = append(members, o.member)
		}
	}
	s.current.Set(members)
}
