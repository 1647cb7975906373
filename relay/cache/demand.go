package cache

import (
	"time"

	"xdsrelay/relay/cache/demand"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// interest is the interest of all clients in one name, or in the wildcard.
type interest = demand.Interest[*Subscription]

// subscribers is a set of subscriptions.
type subscribers = demand.Subscribers[*Subscription]

// NameCost estimates the memory of a name that only one subscription asks for, in bytes, without
// the name itself.
const NameCost = demand.NameCost

// newDemand makes the demand of t.
func (t *core) newDemand() demand.Demand[*Subscription] {
	streams := t.group.cache.cfg.Streams
	cfg := demand.Config{
		Route:    t.streamOf,
		Wildcard: t.group.cache.cfg.Route(t.Type, everything),
		Bounds:   make([]int, len(streams)),
		EmptyGlob: func(name string) bool {
			g := t.store.Glob(name)
			return g != nil && g.Live() == 0
		},
	}
	for i := range streams {
		cfg.Bounds[i] = streams[i].MaxNames
	}
	return demand.New[*Subscription](cfg)
}

// addInterest records that s asks for name. spelled is the client's spelling if that differs,
// otherwise "".
func (t *core) addInterest(s *Subscription, name, spelled string) {
	w := t.demand.Get(name)
	if w == nil {
		w = t.demand.Begin(name, spelled)
		if e := t.store.Get(name); e != nil && e.Res == nil && w.Stream() != t.demand.Wildcard().Stream() && !t.askedFor(e) {
			t.expireTombstone(e) // its absence from the wildcard set proves nothing about the name (D11)
		}
		if resource.IsGlob(name) {
			t.store.AddGlob(name)
		}
		if t.demand.Ask(w, name, t.unheard(name)) {
			t.near(w.Stream())
		}
		t.restoreName(name, w)
	}
	t.unbook(w, name)
	t.demand.Join(w, s)
	s.countPerStream(w, 1)
	t.depend(s, w)
	if t.demand.Open(w, name) {
		s.open = name
	}
}

// unheard reports whether nothing was received of a name.
func (t *core) unheard(name string) bool {
	return t.store.Get(name) == nil && !t.failed(name)
}

// deny makes those of names absent that no stream serves. It wakes no subscription: only the
// client that asks for them at this moment sees it.
func (t *core) deny(names []string) {
	for _, n := range names {
		if w := t.demand.Get(n); w.Stream() == Nobody && t.store.Get(n) == nil {
			t.set(n, table.State{}, t.store.Next(), make(map[*Subscription]struct{}))
		}
	}
}

func (t *core) addWildcardInterest(s *Subscription) {
	if !t.demand.Wildcard().Demanded() {
		t.dropRest()
	}
	if t.demand.JoinWildcard(s) {
		t.restoreWildcard()
	}
	s.countPerStream(t.demand.Wildcard(), 1)
	t.depend(s, t.demand.Wildcard())
}

// wildStream is the stream that serves the wildcard, nil if none does.
func (t *core) wildStream() *typeStreamState {
	if t.demand.Wildcard().Stream() == Nobody {
		return nil
	}
	return &t.streams[t.demand.Wildcard().Stream()]
}

// dropInterest records that s no longer asks for name. The name stays subscribed for the
// linger time, so that reconnecting clients find it (K10), unless there are too many: clients may
// keep asking for new names.
func (t *core) dropInterest(s *Subscription, name string) {
	w := t.demand.Get(name)
	if w == nil {
		return
	}
	s.countPerStream(w, -1)
	if !t.demand.Leave(w, s, time.Now()) {
		return
	}
	if t.demand.Lingering() <= t.group.cache.cfg.Lingering && t.group.mayLinger(demand.Cost(name)) {
		w.Linger(t.group.lingers())
	}
	t.group.lingerFrom(w.Expires())
}

func (t *core) dropWildcardInterest(s *Subscription) {
	s.countPerStream(t.demand.Wildcard(), -1)
	if until := time.Now().Add(t.group.lingers()); t.demand.LeaveWildcard(s, until) {
		t.group.lingerFrom(until)
	}
}
