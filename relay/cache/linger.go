package cache

import (
	"slices"

	"xdsrelay/relay/cache/demand"
	"xdsrelay/relay/cache/table"
)

// Names without interest stay subscribed for the linger time (K10), as far as their bytes are
// within a bound.

// forgetUnserved ends the demand for names without content, in a key without clients: a returning
// client asks for them again, and a client may have invented them. The demand for other names
// stays, so that their content does, but they do not count as lingering. There may be hundreds of
// thousands of names, so it is done in steps. still runs each step, but only while the key has
// neither clients nor streams. t.mu must not be held.
func (t *Table) forgetUnserved(still func(step func()) bool) {
	names := t.namesThat(func(string, *interest) bool { return true })
	for some := range slices.Chunk(names, t.group.cache.step) {
		if !still(func() { t.forgetUnservedOf(some) }) {
			return
		}
	}
	t.tidy()
}

// forgetUnservedOf is a step of forgetUnserved.
func (t *Table) forgetUnservedOf(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ended []string
	for _, name := range names {
		w := t.core.demand.Get(name)
		if w == nil {
			continue
		}
		t.core.unbook(w, name)
		if served := false; w.Subscribers().Len() == 0 {
			t.core.store.EachOf(name, func(e *table.Entry) { served = served || e.Res != nil })
			if !served {
				ended = append(ended, name)
			}
		}
	}
	t.core.endInterests(ended, make(map[*Subscription]struct{})) // there are no subscriptions
	for _, name := range ended {
		t.core.demand.Discard(name) // the next stream asks for the whole demand
	}
}

// endInterest ends the demand for a name without interest.
func (t *core) endInterest(w *interest, name string) {
	t.unbook(w, name)
	t.demand.End(w, name)
	if w.Stream() != Nobody {
		t.streams[w.Stream()].names.EndSilence(name)
	}
}

// unbook records that a name no longer lingers.
func (t *core) unbook(w *interest, name string) {
	if w.Unbook() {
		t.group.lingering.Add(-demand.Cost(name))
		t.group.cache.lingering.Add(-demand.Cost(name))
	}
}

// mayLinger books bytes for a name whose interest has ended, and reports whether it may stay
// subscribed: a key gets at most a quarter of what is free for that in all keys.
func (g *Group) mayLinger(bytes int64) bool {
	own, all := g.lingering.Add(bytes), g.cache.lingering.Add(bytes)
	if own <= (g.cache.cfg.LingeringBytes-all+own)/4 {
		return true
	}
	g.lingering.Add(-bytes)
	g.cache.lingering.Add(-bytes)
	return false
}
