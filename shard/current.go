package shard

import (
	"slices"
	"sync"
	"time"
)

// Current is the view that members keep up to date. All methods are safe for
// concurrent use.
type Current struct {
	mu sync.Mutex
	// Guarded by mu.
	view    *View
	changed chan struct{}
	heard   time.Time
}

// NewCurrent makes one that knows of members.
func NewCurrent(members ...Member) *Current {
	return &Current{view: NewView(members), changed: make(chan struct{}), heard: time.Now()}
}

// View is the last one that was set.
func (c *Current) View() *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Changed is closed when View has something new to say.
func (c *Current) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Heard is the last time that was set.
func (c *Current) Heard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// Hear sets when View was known to be true.
func (c *Current) Hear(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = at
}

// Set makes a view of members, and says so where it differs by more than numbers of
// clients.
func (c *Current) Set(members []Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.view.Members()
	c.view = NewView(members)
	if !slices.EqualFunc(before, c.view.Members(), sameButClients) {
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func sameButClients(a, b Member) bool {
	sameSince := a.Since.Equal(b.Since)
	a.Since, b.Since = time.Time{}, time.Time{}
	a.Clients, b.Clients = 0, 0
	return sameSince && a == b
}
