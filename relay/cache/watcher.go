package cache

// Watcher is one client's interest in one table. It belongs to the client's state for the type and
// links the client to the shared subscription, so that a change finds its clients. The zero Watcher
// with Client set watches nothing.
type Watcher struct {
	// Client is what [Table.Watchers] returns. Fixed before first use.
	Client Client

	// Owned by the client, which makes one call at a time.
	list uint64 // hash of the list that was adopted; 0: none, or edited since

	// Guarded by the table's mu.
	sub        *Subscription
	prev, next *Watcher
}

// Client is the owner of a Watcher: a downstream stream, or a poll that waits.
type Client interface {
	// Flush looks for news and sends them. It is called when there may be some, sometimes without
	// need, and possibly after the Watcher has left.
	Flush()
}

// link adds a watcher that has not agreed to later wakes.
func (s *Subscription) link(w *Watcher) { s.linkTo(&s.watchers, w) }

// listOf is the list of the watchers that have agreed to later wakes, or have not.
func (s *Subscription) listOf(agree bool) **Watcher {
	if agree {
		return &s.paced
	}
	return &s.watchers
}

func (s *Subscription) linkTo(list **Watcher, w *Watcher) {
	first := *list
	w.sub, w.prev, w.next = s, nil, first
	if first != nil {
		first.prev = w
	}
	*list = w
	s.count++
}

func (s *Subscription) unlink(w *Watcher) {
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case s.paced == w:
		s.paced = w.next
	default:
		s.watchers = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.sub, w.prev, w.next = nil, nil, nil
	s.count--
}

// Watchers appends the clients of s to buf.
func (s *Subscription) Watchers(buf []Client) []Client {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	for _, list := range [...]*Watcher{s.watchers, s.paced} {
		for w := list; w != nil; w = w.next {
			buf = append(buf, w.Client)
		}
	}
	return buf
}
