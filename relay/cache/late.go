package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/cache/removals"
	"xdsrelay/relay/resource"
)

// A node that asks the others before the control plane (see first.go) may not know all of them yet:
// it has just started, or Redis was emptied. A node that it meets soon after may have what the
// control plane has lost by mistake, and the answer of the control plane was judged without that.
// So it asks that node as well, and holds back the removal of what the other node has and this one
// never had, as if it had been known in time. Until then the other node takes over nothing from
// this one (K16).

// anyNode is the name of no node.
const anyNode = "\x00"

// Unasked returns which of the other nodes have to be asked for what they have, because the control
// plane was asked for something a moment ago, and they were not asked before it. It calls nodes,
// for the names of all others, only if there may be any.
func (f *Feed) Unasked(nodes func() []string) (unasked []string) {
	g, now := f.group, time.Now()
	may := func(name string) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.streams[f.stream].link.Unasked(name, now)
	}
	if !may(anyNode) {
		return nil
	}
	for _, name := range nodes() {
		if may(name) {
			unasked = append(unasked, name)
		}
	}
	return unasked
}

// Met records that nodes of [Feed.Unasked] were asked for what they have, and that [Feed.TakeOver]
// got it.
func (f *Feed) Met(nodes []string) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.group.streams[f.stream].link.Others.Meet(nodes)
}

// Unmet reports whether the control plane was asked although a node was not asked for what it
// holds.
func (f *Feed) Unmet(node string) bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.group.streams[f.stream].link.Others.Unmet(node)
}

// Guarded reports whether the removal guard would judge the removal of what a stream has.
func (f *Feed) Guarded() bool {
	if !f.group.cache.guards() {
		return false
	}
	return slices.ContainsFunc(f.group.Tables(), func(t *Table) bool {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return t.Type.FullState && t.core.store.Sum(f.stream).Live > 0
	})
}

// TakeOver restores what such nodes have and holds back its removal: resources that the stream
// never had, if its control plane has answered that they do not exist and they are so many that
// their removal would have been held back, and what such resources refer to. It reports whether
// there were any. Resources that the stream holds back itself are replaced by those that such a node
// holds back, if the control plane served these later: a node that restored an old record must not send
// it to all clients of the tier.
func (f *Feed) TakeOver(theirs []Snapshot) (taken bool) {
	g := f.group
	g.hearHolds(theirs)
	byType := make(map[string][]Snapshot)
	for _, k := range theirs {
		if k.HeldBack || time.Since(k.AsOf) < link.UnaskedFor+justBefore { // else they may have been removed long ago
			byType[k.Type.URL] = append(byType[k.Type.URL], k)
		}
	}
	byURL := make(map[string]*pendingRestore, len(byType))
	for url, all := range byType {
		merged := mergeSnapshots(all, g.headOf(url))
		merged.HeldAsOf = oldestHeld(all)
		byURL[url] = g.newPendingRestore(merged)
		if k, t := newestHeld(all), g.lookup(merged.Type); k != nil && t != nil {
			taken = f.takeOver(t, g.newPendingRestore(*k), t.core.renewHeld) || taken
		}
	}
	for more := true; more; taken = taken || more { // what is taken over may refer to more
		more = false
		for _, t := range g.Tables() {
			if r := byURL[t.Type.URL]; r != nil && f.takeOver(t, r, t.core.takeOver) {
				more = true
			}
		}
	}
	return taken
}

// newestHeld returns the snapshot whose held-back content the control plane served last; nil for none.
func newestHeld(all []Snapshot) (newest *Snapshot) {
	for i := range all {
		if k := &all[i]; k.HeldBack && !k.HeldAsOf.IsZero() && (newest == nil || k.HeldAsOf.After(newest.HeldAsOf)) {
			newest = k
		}
	}
	return newest
}

// oldestHeld is since when the control plane may no longer serve some of what any of the snapshots holds
// back; zero if that is unknown, and if none does.
func oldestHeld(all []Snapshot) (asOf time.Time) {
	for i, first := 0, true; i < len(all); i++ {
		if k := &all[i]; k.HeldBack && (first || k.HeldAsOf.Before(asOf)) { // zero is before all
			asOf, first = k.HeldAsOf, false
		}
	}
	return asOf
}

// renewHeld replaces what a stream holds back by what r has, if the control plane served that later,
// and no order or rollout decides what clients see. It returns how many resources it has replaced,
// added or removed.
func (t *core) renewHeld(by int, r *pendingRestore) (changed int, _ *MassRemoval) {
	guard := &t.streams[by].guard
	if guard.Len() == 0 || t.streams[by].gate != nil || !guard.Evidence().AsOf.Before(r.snapshot.HeldAsOf) {
		return 0, nil
	}
	whole := r.snapshot.Wildcard && guard.Reason() == removals.Mass
	change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: t.woken, held: true}
	there, more := make(map[string]struct{}, len(r.snapshot.Resources)), make(map[string]struct{})
	for _, one := range r.snapshot.Resources {
		name, res := one.Resource.Key, one.lasting()
		if res == nil || !slices.Contains(slices.Collect(r.streamsOf(one)), by) {
			continue
		}
		there[name] = struct{}{}
		switch {
		case guard.Has(name) && !t.store.Get(name).CopyFrom(by).Res.SameContent(res):
		case whole && t.neverHad(by, res):
			more[name] = struct{}{}
		default:
			continue
		}
		change.put(res)
		t.store.SetVersion(t.store.Get(name), by, noVersion)
	}
	all := true
	for name := range guard.Names() {
		if _, is := there[name]; !is && whole {
			change.drop(t.store.Get(name))
		} else {
			all = all && is
		}
	}
	if len(more) > 0 {
		t.holdBack(by, more, removals.Evidence{AsOf: r.snapshot.HeldAsOf, Restored: true})
	}
	if all {
		guard.Renew(r.snapshot.HeldAsOf)
	}
	if changed = int(t.store.Gen() + 1 - change.first); changed > 0 {
		t.streams[by].forgetVersion() // the content is not what the control plane sent
		t.fed.Changes += uint64(changed)
		t.record(&change, time.Now(), CauseKept, "")
	}
	return changed, nil
}

// takeOver makes a table take from r, by a method of it that returns how many resources it has taken,
// and a mass removal that is news. It reports whether there were any.
func (f *Feed) takeOver(t *Table, r *pendingRestore, take func(by int, r *pendingRestore) (int, *MassRemoval)) bool {
	t.mu.Lock()
	if f.ctx.Err() != nil {
		t.mu.Unlock()
		return false
	}
	n, mass := take(f.stream, r)
	t.core.recheckHead(t.core.woken)
	woken := t.core.takeWoken()
	holds := t.core.takeHolds()
	t.unlockAndSignal()
	if n == 0 {
		return false
	}
	f.group.changed()
	f.group.cache.cfg.Wake(woken)
	if holds {
		f.group.restoreChildren(t.Type)
	}
	if mass != nil {
		f.group.cache.cfg.Alarm(*mass)
	}
	return true
}

// takeOver is [Feed.TakeOver] for one table. It returns how many resources it has taken, and
// a mass removal that is news; nil for none.
func (t *core) takeOver(by int, r *pendingRestore) (taken int, mass *MassRemoval) {
	var never []*resource.Resource
	of, kept := 0, children{table: t}
	for _, one := range r.snapshot.Resources {
		for stream := range r.streamsOf(one) {
			if stream != by {
				continue
			}
			of++
			if res := one.lasting(); res != nil && t.neverHad(by, res) {
				never = append(never, res)
			}
		}
	}
	whole := t.Type.FullState && r.snapshot.Wildcard && t.demand.Wildcard().Stream() == by && t.demand.Wildcard().Demanded() && t.demand.Answered(t.demand.Wildcard())
	whole = whole && (len(never)*100 > t.group.cache.cfg.MaxRemovalPercent*of || len(never) > 0 && t.store.Sum(by).Live == 0)
	gone, change := make(map[string]struct{}), updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: t.woken}
	for _, res := range never {
		if !whole && !kept.has(res.Key) {
			continue
		}
		change.put(res)
		t.store.SetVersion(t.store.Get(res.Key), by, noVersion)
		if gone[res.Key] = struct{}{}; !whole {
			t.keep(by, res.Key, nil)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	t.streams[by].forgetVersion() // the content is not what the control plane sent
	t.fed.Changes += t.store.Gen() + 1 - change.first
	t.record(&change, time.Now(), CauseKept, "")
	if whole && t.holdBack(by, gone, removals.Evidence{AsOf: r.snapshot.heldAsOf(), Restored: true}) {
		mass = &MassRemoval{Group: t.group, Type: t.Type, Origin: t.group.cache.cfg.Streams[by].Origin, Removals: len(gone), Of: of, HeldBack: true}
	}
	return len(gone), mass
}

// neverHad reports whether a stream may have res, and the table never had anything of that
// name.
func (t *core) neverHad(by int, res *resource.Resource) bool {
	e := t.store.Get(res.Key)
	return (e == nil || e.Res == nil && e.Born == 0 && !e.Denied) && t.mayHold(by, res)
}
