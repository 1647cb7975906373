package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// Observe observes how all clients of a key take what they are sent of some tables from a time on. Nothing
// that clients are sent depends on it, nor when. It replaces what [Server.Show], [Server.Watch] or Observe
// did before; see there for notify. With notify nil, it ends.
func (s *Server) Observe(g *cache.Group, revision string, tables []*cache.Table, since time.Time, notify func(CanaryEvent)) {
	var to *showing
	if notify != nil {
		all := func(Canary) Arm { return CanaryArm }
		to = &showing{of: cache.NewPromoted(revision, tables), arm: all, notify: notify, since: since, began: time.Now()}
	}
	s.candidates.set(g, to)
	for _, st := range s.snapshot() {
		st.mu.Lock()
		if st.group == g && !st.ended {
			st.seeLocked(false)
		}
		st.unlock()
	}
}

// Concerned returns the clients of a key whose subscriptions see something that an overlay of
// [cache.Group.CutNoted] has changed, one for each stream.
func (s *Server) Concerned(g *cache.Group, o *cache.Overlay) (all []Affected) {
	for _, st := range s.snapshot() {
		st.mu.Lock()
		var types []string
		for _, ts := range st.types {
			if st.group == g && o.Concerns(ts.table, &ts.watcher) {
				types = append(types, ts.table.Type.URL)
			}
		}
		if types != nil && st.tier == nil {
			all = append(all, Affected{st.canary(), client{st}, st.call.Identity().Peer, types})
		}
		st.mu.Unlock()
	}
	return all
}
