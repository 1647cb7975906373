package shard

import (
	"context"
	"time"
)

var _ Members = (*Solo)(nil)

// Solo is a tier of one node, which owns everything. All methods are safe for
// concurrent use.
type Solo struct {
	self Member
	now  *Current
}

// NewSolo makes the tier of self alone.
func NewSolo(self Member) *Solo {
	return &Solo{self: self, now: NewCurrent(self)}
}

// Self is the node.
func (s *Solo) Self() Member { return s.self }

// View holds the node alone.
func (s *Solo) View() *View { return s.now.View() }

// Changed is closed when Announce says that the node is cut off, or no longer.
func (s *Solo) Changed() <-chan struct{} { return s.now.Changed() }

// Heard is now: the node knows of itself.
func (s *Solo) Heard() time.Time { return time.Now() }

// Answered is true: there is nobody to hear of.
func (s *Solo) Answered() bool { return true }

// Missing is nobody.
func (s *Solo) Missing() []Missing { return nil }

// Left is false: there are no others.
func (s *Solo) Left(Member) bool { return false }

// Enter does nothing: nobody has to hear it.
func (s *Solo) Enter() {}

// Announce changes what View says of the node. It goes on owning everything:
// nobody else is there.
func (s *Solo) Announce(now Status) {
	m := s.self
	m.Status = now
	m.Draining = false
	s.now.Set([]Member{m})
}

// Leave does nothing: nobody has to hear it.
func (s *Solo) Leave(context.Context) error { return nil }

// Close does nothing.
func (s *Solo) Close() {}
