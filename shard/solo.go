package shard

import (
	"context"
	"sync"
	"time"
)

var _ Members = (*Solo)(nil)

// Solo is a tier of one node, which owns everything. All methods are safe for
// concurrent use.
type Solo struct {
	self Member

	mu sync.Mutex
	// Guarded by mu.
	view    *View
	changed chan struct{}
}

// NewSolo makes the tier of self alone.
func NewSolo(self Member) *Solo {
	return &Solo{self: self, view: NewView([]Member{self}), changed: make(chan struct{})}
}

// Self is the node.
func (s *Solo) Self() Member { return s.self }

// View holds the node alone.
func (s *Solo) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// Changed is closed at the next Announce.
func (s *Solo) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Heard is now: the node knows of itself.
func (s *Solo) Heard() time.Time { return time.Now() }

// Announce changes what View says of the node. It goes on owning everything:
// nobody else is there.
func (s *Solo) Announce(now Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.self
	m.Status = now
	m.Draining = false
	s.view = NewView([]Member{m})
	close(s.changed)
	s.changed = make(chan struct{})
}

// Leave does nothing: nobody has to hear it.
func (s *Solo) Leave(context.Context) error { return nil }

// Close does nothing.
func (s *Solo) Close() {}
