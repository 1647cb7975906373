package shard

import (
	"context"
	"time"
)

var _ Members = (*Solo)(nil)

// Solo is a tier of one node, which owns everything. All methods are safe for concurrent use.
type Solo struct {
	self Member
	now  *Current
}

// NewSolo creates a tier that consists of self.
func NewSolo(self Member) *Solo {
	return &Solo{self: self, now: NewCurrent(self)}
}

// Self returns the node.
func (s *Solo) Self() Member { return s.self }

// View returns the node alone.
func (s *Solo) View() *View { return s.now.View() }

// Changed returns a channel that is closed when Announce changes whether the node can reach the
// control plane.
func (s *Solo) Changed() <-chan struct{} { return s.now.Changed() }

// Heard returns the present time: the view is always correct.
func (s *Solo) Heard() time.Time { return time.Now() }

// Answered returns true: there are no other nodes.
func (s *Solo) Answered() bool { return true }

// Missing returns nil.
func (s *Solo) Missing() []Missing { return nil }

// Left returns false: there are no other nodes.
func (s *Solo) Left(Member) bool { return false }

// Enter does nothing: there are no other nodes.
func (s *Solo) Enter() {}

// Announce changes the node in View. The node still owns everything: there are no other nodes.
func (s *Solo) Announce(now Status) {
	m := s.self
	m.Status = now
	m.Draining = false
	s.now.Set([]Member{m})
}

// Leave does nothing: there are no other nodes.
func (s *Solo) Leave(context.Context) error { return nil }

// Close does nothing.
func (s *Solo) Close() {}
