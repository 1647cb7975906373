package cache

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Feed is the upstream side of a group: what its clients want, and where the
// origin's answers go. One goroutine runs a Feed; its context ends when the
// group has had no clients for the linger time, and from then on the Feed
// changes nothing.
type Feed struct {
	// Fixed after construction.
	group *Group
	news  chan struct{}
	ctx   context.Context
	end   context.CancelCauseFunc
	done  chan struct{} // closed when the runner has returned
}

// Key is the aggregation key.
func (f *Feed) Key() aggregation.Key { return f.group.Key }

// Node is what the relay says it is, towards the origin (K4). It must not be
// changed.
func (f *Feed) Node() *corev3.Node { return f.group.Node }

// News is signalled when [Feed.TakeDemand] has something to say.
func (f *Feed) News() <-chan struct{} { return f.news }

// TakeDemand returns, for each type, what is to be asked of the origin since
// the last call; with all, everything that is wanted, for a new stream. With
// names the full lists are filled in, as SotW needs them.
func (f *Feed) TakeDemand(all, names bool) []Demand {
	var out []Demand
	for _, t := range f.group.Tables() {
		if d, ok := t.takeDemand(all, names); ok {
			out = append(out, d)
		}
	}
	return out
}

// Update is what an origin said about one type.
type Update struct {
	Type *resource.Type
	// Resources are new or changed, Removed do not exist.
	Resources []*resource.Resource
	Removed   []string
	// Full says that Resources is everything there is (a full-state SotW
	// response or a directory): what the table holds beyond it is removed,
	// except the names in Keep, whose new copies could not be used (C5).
	Full bool
	Keep []string
	// Version is version_info of a SotW origin. It is shown to clients who
	// see exactly this state (D7). Empty for delta origins.
	Version string
	// Source is the origin's control_plane.identifier.
	Source string
	// Partial says that this does not answer what was asked, for instance a
	// fired timer (D5) or one of several frames.
	Partial bool
}

// Apply stores u and signals those who can see what changed. It costs as much
// as there are changes (and resources in u), and never waits for a client.
// It returns the number of changes; after the end of the feed, none.
func (f *Feed) Apply(u Update) int {
	t := f.group.lookup(u.Type)
	if t == nil {
		return 0 // nobody asked (C10)
	}
	woken := make(map[*Subscription]struct{})
	t.mu.Lock()
	if f.ctx.Err() != nil {
		t.mu.Unlock()
		return 0
	}
	n := t.applyLocked(u, woken)
	t.mu.Unlock()
	f.group.cache.wake(woken)
	return n
}

// Absent notes that names do not exist, as far as nothing is known of them:
// the origin has been silent about them for too long (C12, D5).
func (f *Feed) Absent(typ *resource.Type, names []string) int {
	return f.Apply(Update{Type: typ, Removed: names, Partial: true})
}

// Missing returns those of names that are wanted and of which nothing is known.
func (f *Feed) Missing(typ *resource.Type, names []string) (missing []string) {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, n := range names {
		if t.wants[n] != nil && t.lookupLocked(n) == nil {
			missing = append(missing, n)
		}
	}
	return missing
}

// Waiting reports whether something is wanted of which nothing is known: a
// name, or a wildcard that the origin has not answered for.
func (f *Feed) Waiting() bool {
	for _, t := range f.group.Tables() {
		if t.waitingForOrigin() {
			return true
		}
	}
	return false
}

func (t *Table) waitingForOrigin() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.wild.demanded() && t.wild.seq > t.answered {
		return true
	}
	for n := range t.wants {
		if t.lookupLocked(n) == nil {
			return true
		}
	}
	return false
}

// Types returns the types that clients have asked for, in the order E1.
func (f *Feed) Types() []*resource.Type {
	tables := f.group.Tables()
	types := make([]*resource.Type, len(tables))
	for i, t := range tables {
		types[i] = t.Type
	}
	return types
}

// Held returns the versions of all that is held of a type, as the origin gave
// them: initial_resource_versions of a new delta stream to the same origin (C8).
func (f *Feed) Held(typ *resource.Type) map[string]string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	held := make(map[string]string, t.live)
	for name, e := range t.entries {
		if e.res != nil && e.held != "" {
			held[name] = e.held
		}
	}
	return held
}

// Up notes that a stream to the origin is established.
func (f *Feed) Up() { f.group.setUpstream(f, nil) }

// Down notes that there is no stream to the origin, and why. Clients are
// served what there is (K14).
func (f *Feed) Down(err error) { f.group.setUpstream(f, err) }

// applyLocked must be called with t.mu held.
func (t *Table) applyLocked(u Update, woken map[*Subscription]struct{}) (changed int) {
	t.fed.Updates++
	gen, ignored := t.gen+1, false
	set := func(name string, res *resource.Resource, held string) {
		t.gen = gen
		changed++
		t.setLocked(name, res, held, gen, woken)
	}
	for _, res := range u.Resources {
		e := t.entries[res.Name]
		switch {
		case !t.coveredLocked(res.Name, res.Aliases):
			t.fed.Ignored++
			ignored = true
		case res.Body == nil && len(res.Aliases) == 0:
			// Either a heartbeat (F6), which changes nothing, or an old
			// server's "does not exist" (C11).
			if res.TTL == 0 && (e == nil || e.res != nil) {
				set(res.Name, nil, "")
			}
		case e != nil && e.res != nil && e.res.SameContent(res):
			e.held = res.Version // D15: the clients keep the version they know
		default:
			set(res.Name, res, res.Version)
		}
	}
	for _, name := range u.Removed {
		e := t.entries[name]
		if e != nil && e.res != nil || e == nil && t.wants[name] != nil {
			set(name, nil, "")
		}
	}
	if u.Full {
		for _, name := range t.missingLocked(u) {
			set(name, nil, "")
		}
	}
	t.fed.Changes += uint64(changed)
	t.settleVersionLocked(u, changed > 0, !ignored && len(u.Keep) == 0)
	if u.Source != "" {
		t.source = u.Source
	}
	if !u.Partial {
		t.answerLocked(woken)
	}
	return changed
}

// missingLocked returns the live names that a full state leaves out.
func (t *Table) missingLocked(u Update) (missing []string) {
	if len(u.Resources)+len(u.Keep) >= t.live && t.live == 0 {
		return nil
	}
	said := make(map[string]struct{}, len(u.Resources)+len(u.Keep))
	for _, r := range u.Resources {
		said[r.Name] = struct{}{}
	}
	for _, n := range u.Keep {
		said[n] = struct{}{}
	}
	for name, e := range t.entries {
		if _, ok := said[name]; !ok && e.res != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// settleVersionLocked keeps the origin's version while the table is exactly
// what the origin sent, and content digests stand in otherwise (D7).
func (t *Table) settleVersionLocked(u Update, changed, exact bool) {
	switch {
	case !changed:
	case !exact, !u.Full, u.Version == t.version: // an origin that reuses versions
		t.version = ""
	default:
		t.version = u.Version
	}
}

// answerLocked notes that the origin has answered all that it was asked, and
// wakes who waited for that.
func (t *Table) answerLocked(woken map[*Subscription]struct{}) {
	t.releaseLocked(woken)
	if t.asked == t.answered {
		return
	}
	t.answered = t.asked
	for s := range t.waiting {
		if s.seq <= t.answered {
			delete(t.waiting, s)
			woken[s] = struct{}{}
		}
	}
}

// releaseLocked ends the hold on possibly old state; see Group.resume.
func (t *Table) releaseLocked(woken map[*Subscription]struct{}) {
	if !t.held {
		return
	}
	t.held = false
	for _, s := range t.subs {
		woken[s] = struct{}{}
	}
}
