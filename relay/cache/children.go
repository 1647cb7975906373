package cache

import (
	"slices"
	"sync/atomic"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/removals"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// While the removal guard holds removals of clusters or listeners back, what these refer to is kept
// as well (K16, E8): a cluster without its endpoints is of no use to a new client. The removals of
// such children, and content that empties them, are held back in the guard of their own table until
// nothing of their parents is held back any more. Endpoints are kept for listeners as well, whose
// clusters the control plane may still have. A control plane that loses its data may remove
// the children first, so children that were removed shortly before the parents are restored.
// Content that was restored from another node or last known good, and is missing when the control
// plane answers, may have been removed long ago: it counts as removed when it was last confirmed,
// unless its parents were restored as well and are held back since that same answer. Parents that
// this node kept while the control plane was away, and that its first answer lacks, were last
// confirmed before that, too.
//
// The table of a child reads the guards of its parents' tables while its own mu is held, never the
// other way round.

const (
	// childPause is the interval at which a child checks whether its parents are still held back:
	// after the parents are back, their children may still be on their way. When the hold ends,
	// children are removed at once.
	childPause = 30 * time.Second
	// justBefore is how long before its parents a child may be removed so that it is restored.
	justBefore = 10 * time.Second
	// maxLost bounds the children that a table remembers for that.
	maxLost = 10_000
)

// parentTypes are the types whose resources refer to those of a type.
var parentTypes = map[string][]string{
	resource.EndpointURL:    {resource.ClusterURL},
	resource.LbEndpointURL:  {resource.ClusterURL},
	resource.ClusterURL:     {resource.ListenerURL, resource.ScopedRouteURL},
	resource.RouteURL:       {resource.ListenerURL, resource.ScopedRouteURL},
	resource.ScopedRouteURL: {resource.ListenerURL},
	resource.VirtualHostURL: {resource.ListenerURL, resource.ScopedRouteURL},
	resource.SecretURL:      {resource.ClusterURL, resource.ListenerURL},
	resource.ExtensionURL:   {resource.ClusterURL, resource.ListenerURL},
}

// lockPlace is the place of a table among those that a goroutine may lock at a time: before those
// of the types whose resources refer to its own.
func lockPlace(url string) int {
	place := 3 // more than the parents of any type have parents
	for _, parent := range parentTypes[url] {
		place = min(place, lockPlace(parent)-1)
	}
	return place
}

// children determines which resources of a table are kept because of their parents.
type children struct {
	table  *core
	looked bool
	all    bool                // some parent of the type is held back
	names  map[string]struct{} // of endpoint sets, whose clusters are known
	// known are the endpoint sets of all present and former clusters, while clients may keep other
	// clusters for their listeners; otherwise nil. asked says that it was determined.
	known map[string]struct{}
	asked bool
	// allOfOwner and ofOwner are like all and names, but for what the followed node holds back; followed
	// says that they were determined.
	allOfOwner, followed bool
	ofOwner              map[string]struct{}
	// restored says that parents were not confirmed when they began to be held back, and asOf is when
	// all parents that are held back were last known to be served; zero if none are.
	restored bool
	asOf     time.Time
}

// has reports whether a resource is kept. The first call examines the parents.
func (c *children) has(name string) bool {
	if !c.looked {
		c.looked = true
		c.look()
	}
	_, named := c.names[name]
	return c.all || named
}

// mayHave reports whether a client may keep a resource that the table does not have, because
// of its parents: not if the table had it, and its removal is definite. The endpoints of a cluster
// that only the client knows stay as long as that.
func (c *children) mayHave(name string) bool {
	e, l := c.table.store.Get(name), c.table.lost[name]
	if !c.has(name) {
		return c.ofUnknown(name) || (e == nil || e.Born == 0) && (c.awaitsOwner() || c.keptByOwner(name))
	}
	return e == nil || e.Born == 0 && !c.predates(e) || l != nil && !c.outdates(l)
}

// predates reports whether the control plane has removed e long before the parents.
func (c *children) predates(e *table.Entry) bool {
	removed := changedAt(e)
	return !removed.IsZero() && c.asOf.Sub(removed) >= justBefore && !c.restored
}

// awaitsOwner reports whether another node, which this one has begun to follow, has not answered for the type
// yet. It may have answered for the parents, which it holds back instead of this node.
func (c *children) awaitsOwner() bool {
	t, now := c.table, time.Now()
	if !t.group.cache.guards() || len(parentTypes[t.Type.URL]) == 0 {
		return false
	}
	for i := range t.streams {
		if t.demand.Stream(i).Wanted() > 0 && t.streams[i].confidence.Is(confidence.Open, now) && t.group.isBorrowed(i) {
			return true
		}
	}
	return false
}

// keptByOwner reports whether the node that this one follows holds back the removal of a parent, as it
// last reported, and this node still has the parent.
func (c *children) keptByOwner(name string) bool {
	if !c.followed {
		c.followed = true
		c.lookAtOwner()
	}
	_, named := c.ofOwner[name]
	return c.allOfOwner || named
}

func (c *children) lookAtOwner() {
	t, kept := c.table, false
	for i := range t.streams {
		kept = kept || t.streams[i].keptByOwner
	}
	if !kept {
		return
	}
	parents := t.group.parentsOf(t.Type.URL)
	c.allOfOwner = len(parents) == 0
	for _, parent := range parents {
		parent.mu.RLock()
		if parent.Type.EndpointType != t.Type.URL {
			c.allOfOwner = c.allOfOwner || parent.core.store.Live() > 0
		} else {
			c.ofOwner = parent.core.endpointNames(c.ofOwner)
		}
		parent.mu.RUnlock()
	}
}

// endpointNames adds the names of the endpoints that resources refer to.
func (t *core) endpointNames(to map[string]struct{}) map[string]struct{} {
	if to == nil {
		to = make(map[string]struct{})
	}
	for _, e := range t.store.Entries() {
		if e.Res != nil && e.Res.Endpoints != "" {
			to[e.Res.Endpoints] = struct{}{}
		}
	}
	return to
}

// KeepsChildren reports whether removals of resources that refer to some of the table are held back. If
// they are, all subscriptions of the table are woken after a pause, or when they are removed.
func (t *Table) KeepsChildren() bool {
	if !t.group.cache.guards() {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	kept := children{table: &t.core}
	if !kept.has("") && len(kept.names) == 0 {
		return false
	}
	t.core.leaveOpen()
	return true
}

// outdates reports whether l may have been removed long before the parents.
func (c *children) outdates(l *lost) bool {
	return l.Restored && c.asOf.Sub(l.AsOf) >= justBefore && !c.restored
}

func (c *children) look() {
	if !c.table.group.cache.guards() {
		return
	}
	for _, parent := range c.table.group.parentsOf(c.table.Type.URL) {
		above := children{table: &parent.core}
		held := parent.Type.EndpointType == c.table.Type.URL && above.has("")
		parent.mu.RLock()
		c.lookAt(parent)
		if held {
			c.keepFor(parent, &above)
		}
		parent.mu.RUnlock()
	}
}

// parentsOf returns the tables of the parent types of a type. Where there is none, since no client here
// asks for a parent type, it has those of its parents: other nodes may have clusters that refer to
// endpoints here.
func (g *Group) parentsOf(url string) (tables []*Table) {
	for _, above := range parentTypes[url] {
		found := []*Table{g.lookup(resource.TypeOf(above))}
		if found[0] == nil {
			found = g.parentsOf(above)
		}
		for _, t := range found {
			if !slices.Contains(tables, t) { // two missing types may have the same parent
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// lookAt examines the guard of a parent's table, whose mu must be held.
func (c *children) lookAt(parent *Table) {
	byName := parent.Type.EndpointType == c.table.Type.URL
	for i := range parent.core.streams {
		seen := parent.core.streams[i].guard.Evidence()
		c.restored = c.restored || seen.Restored
		if !seen.AsOf.IsZero() && (c.asOf.IsZero() || seen.AsOf.Before(c.asOf)) {
			c.asOf = seen.AsOf
		}
	}
	for i := range parent.core.streams {
		for name := range parent.core.streams[i].guard.Names() {
			if !byName {
				c.all = true
				return
			}
			if e := parent.core.store.Get(name); e != nil && e.Res != nil && e.Res.Endpoints != "" {
				if c.names == nil {
					c.names = make(map[string]struct{})
				}
				c.names[e.Res.Endpoints] = struct{}{}
			}
		}
	}
}

// keepFor keeps the endpoints of all clusters, since listeners are held back: the control plane
// may be about to remove these clusters, or may not be able to. Where it is not known which clusters
// there are, it keeps all endpoints. parent is the table of clusters, whose
// mu must be held, and above has looked at its parents.
func (c *children) keepFor(parent *Table, above *children) {
	c.restored = c.restored || above.restored
	if c.asOf.IsZero() || above.asOf.Before(c.asOf) {
		c.asOf = above.asOf
	}
	if !parent.core.demand.WildcardAnswered() {
		c.all = true // clients of other nodes may have others
		return
	}
	c.names = parent.core.endpointNames(c.names)
}

// ofUnknown reports whether endpoints may be those of a cluster which the table of clusters does
// not have, and which a client may keep.
func (c *children) ofUnknown(name string) bool {
	if !c.asked {
		c.asked = true
		c.know()
	}
	_, known := c.known[name]
	return c.known != nil && !known
}

func (c *children) know() {
	clusters := c.table.group.lookup(resource.TypeOf(resource.ClusterURL))
	if clusters == nil || clusters.Type.EndpointType != c.table.Type.URL {
		return
	}
	if above := (children{table: &clusters.core}); !above.has("") {
		return
	}
	c.known = make(map[string]struct{})
	clusters.mu.RLock()
	defer clusters.mu.RUnlock()
	for _, e := range clusters.core.store.Entries() {
		for _, res := range []*resource.Resource{e.Res, e.Last()} {
			if res != nil {
				c.known[res.Endpoints] = struct{}{}
			}
		}
	}
}

// leaveOpen records that a client keeps what the control plane does not have, or that another node was sent
// that its clients do, because the parents are held back: a node that began to ask when the control plane
// had lost its data never had these children, while the client has them from another node (K16). All such
// claims are judged again when parents are removed, and after a pause.
func (t *core) leaveOpen() {
	t.leftOpen.Store(true)
	t.group.guardFrom(time.Now().Add(childPause))
}

// Kept returns those of the names that a client claims which it keeps although the control plane does not have
// them, because their parents are held back. They may have been removed since [Table.Reconcile], and are judged
// by [Table.Gone].
func (t *Table) Kept(claims []resource.Held) *Names {
	if !t.group.cache.guards() {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	var names []string
	kept := children{table: &t.core}
	for _, c := range claims {
		name := resource.Canonical(c.Name)
		if e := t.core.store.Get(name); e != nil && e.Res == nil && kept.mayHave(name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		t.core.leaveOpen()
	}
	return NewNames(names)
}

// judgeOpen wakes the clients whose claims were left open.
func (t *core) judgeOpen(woken map[*Subscription]struct{}) {
	if !t.leftOpen.Swap(false) {
		return
	}
	for _, s := range t.subs {
		woken[s] = struct{}{}
	}
}

// guards reports whether mass removals are held back at all.
func (c *Cache) guards() bool { return c.cfg.MaxRemovalPercent > 0 }

// keepChild holds res back if it empties or removes a resource that is kept for its parents. It
// reports whether it did.
func (u *updateTxn) keepChild(c *children, res *resource.Resource) bool {
	if !u.table.group.cache.guards() || !c.has(res.Key) {
		return false
	}
	e := u.table.store.Get(res.Key)
	if e == nil || e.CopyFrom(u.by) == nil {
		return false
	}
	gone := res.Body == nil && len(res.Aliases) == 0
	if !gone && !res.Hollow() || e.CopyFrom(u.by).Res.Hollow() {
		return false
	}
	if gone {
		res = nil
	}
	u.table.keep(u.by, e.Name, res)
	return true
}

// keepRemoved holds back those removals of u that would take what is kept for its parents.
func (t *core) keepRemoved(c *children, by int, u Update, gone map[string]struct{}) {
	for name := range gone {
		if !t.streams[by].guard.Has(name) && c.has(name) {
			t.keep(by, name, nil)
		}
	}
	for _, a := range u.Errors {
		name := resource.Canonical(a.Name)
		if e := t.store.Get(name); a.Code == resource.CodeNotFound && e != nil && e.CopyFrom(by) != nil && c.has(name) {
			t.keep(by, name, nil)
		}
	}
}

// keep holds back the removal of a stream's resource, or its replacement by then.
func (t *core) keep(by int, name string, then *resource.Resource) {
	check := time.Now().Add(childPause)
	held := t.streams[by].guard.HoldForParents(name, then, check, t.evidence(by, t.streams[by].confidence.FromLastGood()))
	if held.Begins {
		t.group.guardFrom(check)
	}
	t.holds = t.holds || held.More
}

// lost is a child that was removed or emptied so recently that it is restored if its parents are
// held back.
type lost struct {
	res    *resource.Resource // before the removal
	stream int
	at     time.Time
	removals.Evidence
	gap table.Gap
	// sent says that positions do not show whether clients were sent the removal.
	sent atomic.Bool
}

// lose records that a stream has replaced old by res, nil for a removal. from is the
// generation of old, 0 if clients may end it themselves.
func (t *core) lose(by int, old, res *resource.Resource, from uint64) {
	if !t.group.cache.guards() || parentTypes[t.Type.URL] == nil || old.Hollow() || res != nil && !res.Hollow() {
		return
	}
	if t.lost == nil {
		t.lost = make(map[string]*lost)
		t.group.guardFrom(time.Now().Add(justBefore))
	}
	if len(t.lost) < maxLost {
		l := &lost{res: old, stream: by, at: time.Now(), gap: table.Gap{From: from, To: t.store.Gen()}}
		l.Evidence = t.evidence(by, t.streams[by].confidence.FromLastGood())
		if l.Restored {
			l.AsOf = t.restoredAsOf(by, old.Key) // before it was restored
		}
		t.lost[old.Key] = l
	}
}

// forgetLost forgets what was removed too long ago, and returns when to do so next; zero if
// nothing is left.
func (t *core) forgetLost(now time.Time) (next time.Time) {
	for name, l := range t.lost {
		switch over := l.at.Add(justBefore); {
		case !over.After(now):
			delete(t.lost, name)
		case next.IsZero() || over.Before(next):
			next = over
		}
	}
	if len(t.lost) == 0 {
		t.lost = nil
	}
	return next
}

// restoreChildren restores what was removed shortly before resources of a type that are now held
// back, and what was removed shortly before that.
func (g *Group) restoreChildren(parent *resource.Type) {
	woken := make(map[*Subscription]struct{})
	for _, t := range g.Tables() {
		if !slices.ContainsFunc(g.parentsOf(t.Type.URL), func(above *Table) bool { return above.Type == parent }) {
			continue
		}
		t.mu.Lock()
		t.core.restore(woken)
		t.core.recheckHead(woken)
		more := t.core.takeHolds()
		t.mu.Unlock()
		if more || t.Type.EndpointType != "" { // endpoints are kept for listeners, too
			g.restoreChildren(t.Type)
		}
	}
	g.changed()
	g.cache.wake(woken)
}

func (t *core) restore(woken map[*Subscription]struct{}) {
	now := time.Now()
	t.forgetLost(now)
	kept := children{table: t}
	for name, l := range t.lost {
		e := t.store.Get(name)
		if g := t.streams[l.stream].gate; g != nil {
			if _, pending := g.Get(name); pending {
				continue // the control plane has sent it again
			}
		}
		if !kept.has(name) || !t.mayHold(l.stream, l.res) || e != nil && e.Res != nil && !e.Res.Hollow() {
			continue
		}
		if kept.outdates(l) {
			continue
		}
		var then *resource.Resource
		if e != nil {
			then = e.Res
		}
		spared := t.gapOf(l, e)
		change := updateTxn{table: t, by: l.stream, first: t.store.Gen() + 1, woken: woken}
		change.put(l.res)
		t.store.SetGap(t.store.Get(name), spared)
		t.keep(l.stream, name, then)
		stream := &t.streams[l.stream]
		stream.guard.See(l.Evidence)
		stream.forgetVersion() // the content is not what the control plane sent
		t.fed.Changes += t.store.Gen() + 1 - change.first
		t.record(&change, now, CauseKept, "")
		delete(t.lost, name)
	}
}

// takeHolds reports whether more is held back than at its last call, so that what was removed
// shortly before has to be restored.
func (t *core) takeHolds() (more bool) {
	more, t.holds = t.holds, false
	return more
}
