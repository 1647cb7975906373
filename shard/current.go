package shard

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Current is the latest view, which an implementation of [Members] keeps up to date. All methods
// are safe for concurrent use.
type Current struct {
	mu sync.Mutex
	// Guarded by mu.
	view     *View
	changed  chan struct{}
	heard    time.Time
	answered bool              // Hear was called since this node started
	leavers  map[string]leaver // by name
}

// leaver is a node that announced that it drains.
type leaver struct {
	incarnation string
	at          time.Time
}

// leaverTime is how long a node that left is remembered.
const leaverTime = 15 * time.Minute

// NewCurrent creates one with members in its view.
func NewCurrent(members ...Member) *Current {
	return &Current{view: NewView(members), changed: make(chan struct{}), heard: time.Now()}
}

// View returns the last view that was set.
func (c *Current) View() *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Changed returns a channel that is closed when View changes.
func (c *Current) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Heard returns the last time that Hear set.
func (c *Current) Heard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// Hear sets when View was known to be correct.
func (c *Current) Hear(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, c.answered = at, true
}

// Answered reports whether Hear was ever called.
func (c *Current) Answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// Set makes a view of members. It closes the channel of Changed if the view differs by more than
// numbers of clients.
func (c *Current) Set(members []Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.view.Members()
	c.view = NewView(members)
	for _, m := range members {
		if m.Draining {
			c.noteLeaverLocked(m)
		} else {
			delete(c.leavers, m.Name)
		}
	}
	if !slices.EqualFunc(before, c.view.Members(), sameOwnership) {
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// NoteLeaver records that a member announced its end, also if no view showed it as draining.
func (c *Current) NoteLeaver(m Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteLeaverLocked(m)
}

// noteLeaverLocked requires mu.
func (c *Current) noteLeaverLocked(m Member) {
	now := time.Now()
	maps.DeleteFunc(c.leavers, func(_ string, l leaver) bool { return now.Sub(l.at) > leaverTime })
	if c.leavers == nil {
		c.leavers = make(map[string]leaver)
	}
	c.leavers[m.Name] = leaver{m.Incarnation, now}
}

// Left reports whether a member announced its end, in this incarnation.
func (c *Current) Left(m Member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, there := c.leavers[m.Name]
	return there && l.incarnation == m.Incarnation
}

// sameOwnership reports whether two states of a member make no difference for the owner of any key,
// or for reaching the member.
func sameOwnership(a, b Member) bool {
	sameSince := a.Since.Equal(b.Since)
	a.Since, b.Since = time.Time{}, time.Time{}
	a.Clients, b.Clients = 0, 0
	a.Sharded, b.Sharded = false, false
	return sameSince && a == b
}
