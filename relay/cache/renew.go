package cache

import (
	"cmp"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// While the control plane cannot be reached, a group takes over what other nodes have as if it were
// its own last known good (see [Group.RestoreFrom]): unconfirmed, so that no client is notified of
// an absence, and served until the control plane answers. If several nodes have a type, the one
// that proves to be newest counts, by the tier head first and then by when it last received
// something from the control plane; the others add names of which that one knows nothing.

// Snapshots returns what the group has of each type, including restorable content that no client
// has asked for.
func (g *Group) Snapshots() (all []Snapshot) {
	for _, t := range g.Tables() {
		if k, ok := t.snapshot(true); ok {
			all = append(all, k)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.pendingRestores {
		all = append(all, r.snapshot)
	}
	return all
}

// GroupOf returns the group of a key, which may be idle; nil if there is none.
func (c *Cache) GroupOf(key aggregation.Key) *Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups[key]
}

// Renew gives the group what other nodes have of its key, as far as it can be better than what the
// group has, and reports whether any of it was.
func (g *Group) Renew(others []Snapshot) (taken bool) {
	g.hearHolds(others)
	own := g.Snapshots()
	byType := make(map[string][]Snapshot)
	for _, k := range others {
		byType[k.Type.URL] = append(byType[k.Type.URL], k)
	}
	for i := range own {
		if url := own[i].Type.URL; byType[url] != nil {
			byType[url] = slices.Insert(byType[url], 0, own[i])
		}
	}
	g.holdUnjudged(byType)
	for url, all := range byType {
		i := slices.IndexFunc(own, func(k Snapshot) bool { return k.Type.URL == url })
		if k := mergeSnapshots(all, g.headOf(url)); i < 0 || !k.same(&own[i]) {
			g.RestoreFrom(k)
			taken = true
			continue
		}
		for k := range all[1:] {
			if k := &all[1:][k]; !k.Outdated && !k.Recorded && k.same(&own[i]) {
				g.confirmRestored(url, k.AsOf)
			}
		}
	}
	return taken
}

// confirmRestored records that another node has had the same content of a type from the control
// plane at a time.
func (g *Group) confirmRestored(url string, asOf time.Time) {
	g.mu.Lock()
	t := g.tables[url]
	if t == nil {
		g.pendingRestores[url].confirm(asOf)
	}
	g.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.core.pendingRestore.confirm(asOf)
	for i := range t.core.streams {
		if c := &t.core.streams[i].confidence; c.FromLastGood() && c.RestoredAsOf().Before(asOf) {
			c.RenewedFrom(asOf)
		}
	}
}

// confirm records that all of r was current at a time. r may be nil.
func (r *pendingRestore) confirm(asOf time.Time) {
	if r != nil && r.snapshot.AsOf.Before(asOf) {
		r.snapshot.AsOf, r.older = asOf, nil
	}
}

// Adopt keeps what another node that is about to end has of a key, as if the key had been idle
// here: it counts among idle keys, and clients may connect for it.
func (c *Cache) Adopt(key aggregation.Key, node *corev3.Node, held []Snapshot) {
	c.mu.Lock()
	g := c.groups[key]
	fresh := g == nil && !c.closed
	if fresh {
		g = c.addLocked(key, node)
	}
	c.mu.Unlock()
	if g == nil || !fresh && g.Upstream().Connected {
		return // it has something better
	}
	g.Renew(held)
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.runs || c.closed {
		return
	}
	c.idleBytes -= c.sizes[g]
	c.sizes[g] = g.bytes()
	c.idleBytes += c.sizes[g]
	c.idle.Add(key, g)
	c.evictLocked(c.cfg.IdleBytes)
}

// mergeSnapshots merges the snapshots of one type: of each name it takes the newest copy. It omits
// what is not in a complete wildcard set that is newer, and what a newer snapshot knows to be
// absent, unless another node's removal guard holds its removal back. head is the digest that the
// tier head has of the type, nil if that is unknown.
func mergeSnapshots(all []Snapshot, head *resource.Digest) Snapshot {
	ranked := rankSnapshots(all, head)
	m := merged{Snapshot: Snapshot{Type: ranked[0].Type, AsOf: ranked[0].AsOf, Outdated: ranked[0].Outdated}, named: make(map[string]int), absent: make(map[string]struct{})}
	for i := range ranked {
		if !m.Wildcard || ranked[i].HeldBack {
			m.add(&ranked[i])
		}
	}
	for i := range ranked {
		m.addErrored(&ranked[i])
	}
	for name := range m.absent {
		if _, there := m.named[name]; !there {
			m.Absent = append(m.Absent, name)
		}
	}
	m.Recorded = ranked[0].Recorded && len(m.Resources) == len(ranked[0].Resources)
	return m.Snapshot
}

// rankSnapshots returns the snapshots of one type with the newest first.
func rankSnapshots(all []Snapshot, head *resource.Digest) []Snapshot {
	ranked := slices.Clone(all)
	// Snapshots that were never compared with this tier head, such as a record or the content of an
	// idle node, prove nothing against those that were: the time decides.
	compared := slices.ContainsFunc(all, func(k Snapshot) bool { return k.Outdated })
	behind := func(k *Snapshot) int {
		other := head != nil && (k.Wildcard || k.HeadDigest != *head) && k.digest() != *head
		return boolRank(k.Outdated || compared && (k.Recorded || other))
	}
	slices.SortStableFunc(ranked, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(behind(&a), behind(&b)), b.AsOf.Compare(a.AsOf))
	})
	// For names that the newest one lacks, the tier head proves nothing: a node that restored an
	// old record need not have compared it.
	slices.SortStableFunc(ranked[1:], func(a, b Snapshot) int { return b.AsOf.Compare(a.AsOf) })
	return ranked
}

// digest is the digest of all resources of k.
func (k *Snapshot) digest() (d resource.Digest) {
	for _, one := range k.Resources {
		d = d.Add(one.Resource.Member())
	}
	return d
}

// headOf is the digest that the tier head has of a type; nil if it is unknown.
func (g *Group) headOf(url string) *resource.Digest {
	g.mu.Lock()
	t := g.tables[url]
	early, known := g.tierHeads[url]
	g.mu.Unlock()
	switch {
	case len(g.cache.cfg.Streams) > 1:
		return nil
	case known:
		return &early.Digest
	case t == nil:
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	head, known := t.core.tierHead.Head()
	if !known {
		return nil
	}
	return &head.Digest
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// merged is a [Snapshot] that is being made.
type merged struct {
	Snapshot

	named  map[string]int      // indices of its resources, by their keys
	absent map[string]struct{} // names that some of the added snapshots know not to exist
}

// add adds what k knows of other names.
func (m *merged) add(k *Snapshot) {
	streams := make([]int, len(k.Streams)) // their indices in m
	for i, l := range k.Streams {
		streams[i] = slices.IndexFunc(m.Streams, func(o SnapshotStream) bool { return o.is(l.OriginStream) })
		if streams[i] < 0 {
			streams[i] = len(m.Streams)
			m.Streams = append(m.Streams, l)
		} else if m.Streams[streams[i]].Version != l.Version {
			m.Streams[streams[i]].Version = "" // it is the version of neither
		}
	}
	for _, one := range k.Resources {
		_, known := m.named[one.Resource.Key]
		if _, gone := m.absent[one.Resource.Key]; known || gone && !k.HeldBack {
			continue
		}
		m.named[one.Resource.Key] = len(m.Resources)
		bits := one.Streams
		one.Streams = 0
		if one.AsOf.IsZero() && k.AsOf.Before(m.AsOf) {
			one.AsOf = k.AsOf
		}
		for i, to := range streams {
			if bits&(1<<i) != 0 && to < maxStreams {
				one.Streams |= 1 << to
			}
		}
		m.Resources = append(m.Resources, one)
	}
	for _, name := range k.Globs {
		if !slices.Contains(m.Globs, name) {
			m.Globs = append(m.Globs, name)
		}
	}
	for _, name := range k.Absent {
		m.absent[name] = struct{}{}
	}
	m.Wildcard = m.Wildcard || k.Wildcard
}

// addErrored records for which resources clients of k may remember an error (C16).
func (m *merged) addErrored(k *Snapshot) {
	for _, one := range k.Resources {
		i, known := m.named[one.Resource.Key]
		if !one.Errored || !known || !m.Resources[i].Resource.SameContent(one.Resource) {
			continue
		}
		if r := &m.Resources[i]; !r.Errored || one.ErroredSince.Before(r.ErroredSince) { // zero is before all
			r.Errored, r.ErroredSince = true, one.ErroredSince
		}
	}
}

// same reports whether k has nothing else than o: no other name, copy or complete set, and no error
// that clients may remember.
func (k *Snapshot) same(o *Snapshot) bool {
	if k.Wildcard != o.Wildcard || len(k.Globs) != len(o.Globs) || len(k.Resources) != len(o.Resources) {
		return false
	}
	had := make(map[string]*SnapshotResource, len(o.Resources))
	for i := range o.Resources {
		had[o.Resources[i].Resource.Key] = &o.Resources[i]
	}
	return !slices.ContainsFunc(k.Resources, func(one SnapshotResource) bool {
		old := had[one.Resource.Key]
		return old == nil || !old.Resource.SameContent(one.Resource) || old.Resource.Version != one.Resource.Version || old.Errored != one.Errored
	})
}

// renew replaces what was restored before by what proves to be newer, and returns the set of
// streams whose content it has replaced.
func (t *core) renew(r *pendingRestore) (renewed uint64) {
	for _, one := range r.snapshot.Resources { // present resources need no memory twice
		if e := t.store.Get(one.Resource.Key); e != nil && e.Res != nil && e.Res.SameContent(one.Resource) {
			r.taken[one.Resource.Key] = struct{}{}
		}
	}
	for by := range t.streams {
		if t.renews(by, r) && t.renewStream(by, r) || t.restoreSilent(by, r) {
			renewed |= 1 << by
		}
	}
	return renewed
}

// restoreSilent restores names that a stream counts as absent by its silence alone, if r has them and
// there is no stream any more: its connection may have stalled. It reports whether there were any.
func (t *core) restoreSilent(by int, r *pendingRestore) (restored bool) {
	if t.group.upstreamOf(by).Connected {
		return false
	}
	for _, one := range r.snapshot.Resources {
		key := one.Resource.Key
		if res := one.lasting(); res != nil && t.streams[by].names.IsSilent(key) && t.absentOn(by, key) {
			t.restoreThrough(r, by, res)
			restored = true
		}
	}
	if restored {
		t.settleRestored(by)
	}
	return restored
}

// renews reports whether r is newer than the content of a stream: that was restored from
// something older, or is from before the key was idle or the process slept, or the tier head proves
// it while the control plane cannot be asked. A head that may itself be old proves it if other
// nodes have its content from later.
func (t *core) renews(by int, r *pendingRestore) bool {
	stream := &t.streams[by]
	switch {
	case t.store.Sum(by).Live == 0 && !t.demand.Stream(by).HasAnswered() && !stream.confidence.FromLastGood():
		return false // it is taken once there is interest in it
	case stream.confidence.FromLastGood() && r.snapshot.AsOf.After(t.streamAsOf(by, time.Now())):
		return true
	case stream.confidence.Missed() && r.snapshot.AsOf.After(t.streamAsOf(by, time.Now()).Add(link.Noticed)):
		return true
	}
	if !t.behind() || r.snapshot.Outdated || !t.group.unreachable(1<<by) {
		return false
	}
	return t.outdated() || r.snapshot.AsOf.After(t.streamAsOf(by, time.Now()).Add(link.Noticed))
}

// renewStream replaces the content of a stream, and reports whether anything has changed.
func (t *core) renewStream(by int, r *pendingRestore) bool {
	stream := &t.streams[by]
	u := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: t.woken, final: true}
	whole := r.snapshot.Wildcard && t.demand.Wildcard().Stream() == by
	there := make(map[string]struct{}, len(r.snapshot.Resources))
	for _, one := range r.snapshot.Resources {
		key := one.Resource.Key
		there[key] = struct{}{}
		e := t.store.Get(key)
		if stream.names.Overtakes(key, r.snapshot.AsOf) {
			continue
		}
		if whole && (e == nil || e.Res == nil) {
			t.restoreNew(r, one)
			continue
		}
		if t.absentOn(by, key) { // elsewhere it exists since, or is kept for clusters that are renewed, too
			if res := one.lasting(); res != nil {
				t.restoreThrough(r, by, res)
			}
			continue
		}
		if e == nil || e.CopyFrom(by) == nil {
			continue
		}
		if e.CopyFrom(by).Res.SameContent(one.Resource) {
			u.rename(e, one.Resource.Version)
			continue
		}
		if res := one.lasting(); res != nil && t.mayHold(by, res) {
			u.put(res)
			t.store.SetVersion(e, by, noVersion)
			r.taken[key] = struct{}{}
		}
	}
	if whole {
		for key, e := range t.store.Entries() {
			if _, is := there[key]; !is && e.CopyFrom(by) != nil && !stream.names.Overtakes(key, r.snapshot.AsOf) {
				u.drop(e)
			}
		}
	}
	for _, name := range r.snapshot.Absent {
		if e := t.store.Get(name); e != nil && !stream.names.Overtakes(name, r.snapshot.AsOf) {
			u.drop(e)
		}
	}
	if t.store.Gen() < u.first {
		return false
	}
	t.record(&u, time.Now(), CauseRestored, "")
	stream.claims++
	t.noteOlder(by, there)
	stream.confidence.RenewedFrom(r.snapshot.AsOf)
	t.settleRestored(by)
	return true
}

// noteOlder records when the restored copies of a stream were current that are not among renewed names,
// before the others are renewed.
func (t *core) noteOlder(by int, renewed map[string]struct{}) {
	stream := &t.streams[by]
	if !stream.confidence.FromLastGood() {
		return
	}
	var older map[string]time.Time
	for key, e := range t.store.Entries() {
		if _, is := renewed[key]; is || e.CopyFrom(by) == nil {
			continue
		}
		if older == nil {
			older = make(map[string]time.Time)
		}
		older[key] = t.restoredAsOf(by, key)
	}
	stream.older = older
}

// restoredAsOf is when the restored copy of a name was current; zero if nothing was restored, or the
// control plane has answered since.
func (t *core) restoredAsOf(by int, key string) (none time.Time) {
	stream := &t.streams[by]
	if !stream.confidence.FromLastGood() {
		return none
	}
	if at, is := stream.older[key]; is {
		return at
	}
	if r := t.pendingRestore; r != nil {
		if at, is := r.older[key]; is {
			return at
		}
	}
	return stream.confidence.RestoredAsOf()
}

// absentOn reports whether a stream is asked for a name that is known to be absent.
func (t *core) absentOn(by int, name string) bool {
	e, w := t.store.Get(name), t.demand.Get(name)
	return e != nil && e.Res == nil && !e.Denied && w != nil && w.Stream() == by
}

// rename replaces the version of e, which clients may not have been sent yet, by the one that
// clients of other nodes got for the same content (K11).
func (u *updateTxn) rename(e *table.Entry, version string) {
	if e.Res.Version == version || e.Stream != u.by || e.Second() != nil {
		return
	}
	same := *e.Res
	same.Version = version
	s := table.State{Copy: e.Copy, Member: e.Member}
	s.Res, s.Version = &same, noVersion
	u.set(e.Name, s)
}

// lasting is the resource with the rest of its TTL; nil if that has passed (F5).
func (one *SnapshotResource) lasting() *resource.Resource {
	if one.Expires.IsZero() {
		return one.Resource
	}
	left := time.Until(one.Expires)
	if left <= 0 {
		return nil
	}
	lasting := *one.Resource
	lasting.TTL = left
	return &lasting
}
