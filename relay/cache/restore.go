package cache

import (
	"cmp"
	"time"

	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/resource"
)

// A group that is new in this process may get the last known good of its key ([Group.RestoreFrom]).
// It then behaves as if it had been idle with that content: what clients ask for is present at
// once, is withheld from them while the control plane may answer, and is served if it does not.
// Resources are restored on first interest, because unsubscribed ones would never be refreshed. The
// content is unconfirmed until the control plane has answered: no name counts as removed before
// (K14).

// noVersion marks a copy whose version the control plane may use for other content by now.
const noVersion = "unknown"

// pendingRestore is the part of a [Snapshot] that may still be restored.
type pendingRestore struct {
	snapshot Snapshot
	streams  []int               // for each stream of the snapshot: the index of today's, or Nobody
	named    map[string][]int    // indices of resources, by each of their names
	globs    map[string]struct{} // globs that are complete
	digest   []resource.Digest   // of the content of each of today's streams
	taken    map[string]struct{} // names of the restored resources
	// older is when those were current that are older than the rest, by name; nil for none.
	older    map[string]time.Time
	until    time.Time // when the rest may be dropped
	compared time.Time // since when other nodes have nothing newer, as far as they could be asked
}

// Restore calls load the first time that it is called for a group, and does not return before that
// call has. load should pass what it finds to [Group.RestoreFrom].
func (g *Group) Restore(load func()) { g.restored.Do(load) }

// RestoreFrom gives the group the last known good of one type. Content that control planes have
// sent since the group was made stays unchanged.
func (g *Group) RestoreFrom(k Snapshot) {
	if g.private {
		return
	}
	r := g.newPendingRestore(k)
	g.mu.Lock()
	t := g.tables[k.Type.URL]
	if t == nil {
		if g.pendingRestores == nil {
			g.pendingRestores = make(map[string]*pendingRestore)
		}
		g.pendingRestores[k.Type.URL] = r
	}
	for i, l := range k.Streams {
		if stream := r.streams[i]; stream != Nobody {
			g.streams[stream].link.Versions.Restored(l.Server)
		}
	}
	g.mu.Unlock()
	g.lingerFrom(r.until)
	if t == nil {
		return
	}
	t.mu.Lock()
	t.core.pendingRestore = r
	renewed := t.core.renew(r)
	t.core.restoreWanted(anyStream)
	t.core.recall(r)
	t.core.recheckHead(t.core.woken)
	woken := t.core.takeWoken()
	t.mu.Unlock()
	g.changed()
	if renewed != 0 {
		g.signalDemand(renewed) // a stream that is open has to be asked again; see Feed.Claims
	}
	if len(woken) > 0 {
		g.cache.cfg.Wake(woken)
	}
}

func (g *Group) newPendingRestore(k Snapshot) *pendingRestore {
	streams, now := g.cache.cfg.Streams, time.Now()
	r := &pendingRestore{
		snapshot: k, streams: make([]int, len(k.Streams)), named: make(map[string][]int, len(k.Resources)), globs: make(map[string]struct{}, len(k.Globs)),
		digest: make([]resource.Digest, len(streams)), taken: make(map[string]struct{}), until: now.Add(g.cache.cfg.Linger), compared: now,
	}
	for i, l := range k.Streams {
		r.streams[i] = Nobody
		for today := range streams {
			if streams[today].is(l.OriginStream) {
				r.streams[i] = today
			}
		}
	}
	for _, n := range k.Globs {
		r.globs[n] = struct{}{}
	}
	for i, one := range k.Resources {
		for _, n := range namesOf(one.Resource) {
			r.named[n] = append(r.named[n], i)
		}
		if !one.AsOf.IsZero() {
			if r.older == nil {
				r.older = make(map[string]time.Time)
			}
			r.older[one.Resource.Key] = one.AsOf
		}
		for stream := range r.streamsOf(one) {
			r.digest[stream] = r.digest[stream].Add(one.Resource.Member())
		}
	}
	return r
}

// streamsOf iterates over today's streams that had a copy of a resource.
func (r *pendingRestore) streamsOf(one SnapshotResource) func(yield func(stream int) bool) {
	return func(yield func(int) bool) {
		for i, stream := range r.streams {
			if stream != Nobody && one.Streams&(1<<i) != 0 && !yield(stream) {
				return
			}
		}
	}
}

// addTo adds to k what is left and t has not received.
func (r *pendingRestore) addTo(k *Snapshot, t *Table) {
	whole := r.snapshot.Wildcard && !t.core.demand.Wildcard().Demanded()
	for _, one := range r.snapshot.Resources {
		key := one.Resource.Key
		if _, taken := r.taken[key]; taken || t.core.store.Get(key) != nil {
			e := t.core.store.Get(key)
			whole = whole && e != nil && e.Res != nil // else its demand ended, and removed it
			continue
		}
		bits := uint64(0)
		for stream := range r.streamsOf(one) {
			bits |= 1 << stream
		}
		if bits != 0 {
			one.Streams, one.Errored, one.ErroredSince = bits, t.core.errored.Has(key), t.core.errored.Since(key)
			k.Resources = append(k.Resources, one)
		}
	}
	k.Wildcard = k.Wildcard || whole
}

// hearRestored records that nothing is left to restore of the names that an update has removed or
// changed. When their demand ends, the table forgets them, and what was restored before is older than
// what clients got.
func (t *core) hearRestored(u *Update, missing []string) {
	r := t.pendingRestore
	if r == nil || u.Kind == silence {
		return
	}
	forget := func(key string) {
		if _, had := r.named[key]; had {
			r.taken[key] = struct{}{}
			delete(r.named, key)
		}
	}
	for _, res := range u.Resources {
		e, of := t.store.Get(res.Key), r.named[res.Key]
		if e == nil || e.Res == nil || len(of) == 1 && e.Res.SameContent(r.snapshot.Resources[of[0]].Resource) {
			continue
		}
		forget(res.Key)
	}
	for _, spelled := range u.Removed {
		if name := resource.Canonical(spelled); !t.store.Exists(name) {
			forget(name)
		}
	}
	for _, name := range missing {
		if !t.store.Exists(name) {
			forget(name)
		}
	}
}

// bytes estimates the memory beyond that of the tables.
func (r *pendingRestore) bytes() (n int64) {
	for _, one := range r.snapshot.Resources {
		if _, taken := r.taken[one.Resource.Key]; !taken {
			n += int64(one.Resource.Size())
		}
	}
	return n + int64(len(r.named))*64
}

// restoreName restores the resources of a name whose interest has just begun.
func (t *core) restoreName(name string, w *interest) {
	r := t.pendingRestore
	if r == nil || !t.mayRestore(w.Stream()) && !t.begins(w.Stream()) {
		return
	}
	if _, whole := r.globs[name]; resource.IsGlob(name) && !whole {
		return
	}
	seq := t.demand.Presume(w)
	for _, i := range r.named[name] {
		t.restoreResource(r, r.snapshot.Resources[i])
	}
	if !t.store.Knows(name) {
		t.demand.Retract(w, seq)
		return
	}
	t.demand.Close(w, name)
	t.compareRestored(w.Stream())
	t.settleRestored(w.Stream())
}

// restoreWildcard is restoreName for the wildcard.
func (t *core) restoreWildcard() {
	r := t.pendingRestore
	stream := t.demand.Wildcard().Stream()
	if r == nil || !r.snapshot.Wildcard || !t.mayRestore(stream) && !t.begins(stream) && !(t.demand.LacksWildcard(stream) && t.group.compares()) {
		return
	}
	gen := t.store.Gen()
	for _, one := range r.snapshot.Resources {
		t.restoreResource(r, one)
	}
	if t.store.Gen() != gen {
		t.streams[stream].claims++
	}
	t.demand.Presume(t.demand.Wildcard())
	if g := t.streams[stream].gate; g != nil {
		g.fresh = false
	}
	t.streams[stream].confidence.RestoredFrom(r.snapshot.AsOf)
	t.compareRestored(stream)
	t.settleRestored(stream)
}

// compareRestored makes clients of content that is restored now wait until other nodes were
// asked for something newer, if that was read long ago and the control plane cannot be reached: other
// nodes may have had it from there since.
func (t *core) compareRestored(by int) {
	now := time.Now()
	if r := t.pendingRestore; now.Sub(r.compared) > link.AskedFor && t.group.awaitOthers(by, now) {
		r.compared = now
	}
}

// mayRestore reports whether restored content is better than nothing: the stream has never
// answered for the type, or its control plane cannot be asked, or not yet.
func (t *core) mayRestore(stream int) bool {
	return stream != Nobody && (!t.demand.Stream(stream).HasAnswered() || !t.group.upstreamOf(stream).Connected)
}

// restoreResource puts a resource into the table as if each stream that had a copy, and asks
// for it again, had just received it.
func (t *core) restoreResource(r *pendingRestore, one SnapshotResource) {
	if e := t.store.Get(one.Resource.Key); e != nil && (e.Res == nil || !e.Res.SameContent(one.Resource)) {
		return // the present content is newer
	}
	t.restoreNew(r, one)
}

// restoreNew is restoreResource for a resource that is newer than the present content.
func (t *core) restoreNew(r *pendingRestore, one SnapshotResource) {
	res := one.lasting()
	if res == nil {
		return // its TTL has passed (F5)
	}
	for stream := range r.streamsOf(one) {
		t.restoreThrough(r, stream, res)
	}
	if w := t.demand.Get(res.Key); w != nil && w.Stream() != Nobody && t.store.Get(res.Key) == nil {
		t.restoreThrough(r, w.Stream(), res) // subscribers by name see what only the wildcard's stream had (D11)
	}
}

// restoreThrough makes res the copy of a stream that may have it and has none.
func (t *core) restoreThrough(r *pendingRestore, stream int, res *resource.Resource) {
	if e := t.store.Get(res.Key); e != nil && e.CopyFrom(stream) != nil || !t.mayHold(stream, res) {
		return
	}
	if t.streams[stream].names.Overtakes(res.Key, r.snapshot.AsOf) {
		return // the owner has sent since that it does not exist
	}
	u := updateTxn{table: t, by: stream, first: t.store.Gen() + 1, woken: t.woken}
	first := t.store.Sum(stream).Live == 0
	u.put(res)
	t.record(&u, time.Now(), CauseRestored, "")
	t.store.SetVersion(t.store.Get(res.Key), stream, noVersion)
	if first { // what was restored before is gone
		t.streams[stream].confidence.RenewedFrom(r.snapshot.AsOf)
	} else {
		t.streams[stream].confidence.RestoredFrom(r.snapshot.AsOf)
	}
	r.taken[res.Key] = struct{}{}
}

// settleRestored updates the state of a stream after content of it was restored.
func (t *core) settleRestored(by int) {
	stream := &t.streams[by]
	if !stream.confidence.FromLastGood() {
		return
	}
	stream.version = ""
	for i, l := range t.pendingRestore.snapshot.Streams {
		if t.pendingRestore.streams[i] != by {
			continue
		}
		stream.source = cmp.Or(stream.source, l.Source)
		if t.store.Sum(by).Digest == t.pendingRestore.digest[by] {
			stream.version = l.Version
		}
	}
	hold := t.group.cache.cfg.Hold
	if hold <= 0 || !t.group.mayImprove(by) || t.group.over() {
		return
	}
	stream.confidence.HoldBegan()
	if t.holding == nil {
		t.holding = time.AfterFunc(hold, t.shell.release)
	} else {
		t.holding.Reset(hold)
	}
}

// release ends the withholding of restored content, though no control plane has answered.
func (t *Table) release() {
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	for by := range t.core.streams {
		t.core.unhold(by, woken)
	}
	t.mu.Unlock()
	t.group.cache.wake(woken)
}

// restoreWanted restores what clients ask for on the given streams and is not known, and
// marks the subscriptions that wait for it.
func (t *core) restoreWanted(streams uint64) {
	if t.pendingRestore == nil {
		return
	}
	gen := t.store.Gen()
	for name, w := range t.demand.All() {
		if w.Stream() != Nobody && streams&(1<<w.Stream()) != 0 && !t.demand.Answered(w) {
			t.restoreName(name, w)
		}
	}
	if w := t.demand.Wildcard(); w.Stream() != Nobody && streams&(1<<w.Stream()) != 0 && w.Demanded() && !t.demand.Answered(w) {
		t.restoreWildcard()
	}
	if t.store.Gen() == gen && !t.stale() {
		return
	}
	for s := range t.waiting {
		delete(t.waiting, s)
		s.waits = nil
		if s.key.wildcard {
			t.depend(s, t.demand.Wildcard())
		}
		for n := range s.names {
			t.depend(s, t.demand.Get(n))
		}
		t.woken[s] = struct{}{}
	}
}

// restoreWanted is restoreWanted for the tables of a group, when a stream's control plane
// becomes unreachable.
func (g *Group) restoreWanted(stream int) {
	for _, t := range g.Tables() {
		t.mu.Lock()
		t.core.restoreWanted(1 << stream)
		t.core.recheckHead(t.core.woken)
		woken := t.core.takeWoken()
		t.mu.Unlock()
		if len(woken) > 0 {
			g.cache.cfg.Wake(woken)
		}
	}
}

// stale reports whether the table has restored content for which the control plane has not
// answered yet.
func (t *core) stale() bool {
	for i := range t.streams {
		if t.streams[i].confidence.FromLastGood() {
			return true
		}
	}
	return false
}

// Stale reports whether anything of the stream and the type was restored, and its control plane has
// not answered since.
func (f *Feed) Stale(typ *resource.Type) bool {
	t := f.group.lookup(typ)
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.streams[f.stream].confidence.FromLastGood()
}

// Settled reports whether this node knows what clients ask for of the type on the stream, in part at
// least, even if only that it does not exist: the stream's control plane has answered, or a complete
// set was restored.
func (f *Feed) Settled(typ *resource.Type) bool {
	t := f.group.lookup(typ)
	if t == nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	demand, stream := &t.core.demand, &t.core.streams[f.stream]
	open, whole := demand.Stream(f.stream).Unanswered()+stream.names.Assumed(), false
	if wild := demand.Wildcard(); wild.Demanded() && wild.Stream() == f.stream {
		if whole = demand.Answered(wild); !whole {
			open++
		}
	}
	return demand.Stream(f.stream).Wanted() > open && (whole || !stream.confidence.FromLastGood())
}

// dropRestore drops restorable content that no client has asked for within the linger time,
// once the control planes answer. It returns when to check again, zero for never.
func (t *core) dropRestore(now time.Time) (next time.Time) {
	switch r := t.pendingRestore; {
	case r == nil:
	case now.Before(r.until):
		return r.until
	case t.stale() || t.group.unreachable(anyStream):
		return now.Add(time.Minute)
	default:
		t.pendingRestore = nil
	}
	return next
}

// dropRestores is dropRestore for types that no client has asked for.
func (g *Group) dropRestores(now time.Time) (next time.Time) {
	out := g.unreachable(anyStream)
	g.mu.Lock()
	defer g.mu.Unlock()
	for url, r := range g.pendingRestores {
		at := r.until
		switch {
		case now.Before(at):
		case out:
			at = now.Add(time.Minute)
		default:
			delete(g.pendingRestores, url)
			continue
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}
