package cache

import (
	"context"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// Feed is the upstream side of one leg of a group: what the clients want of it,
// and where the origin's answers go. One goroutine runs a Feed; its context ends
// when the group has had no clients for the linger time, or nothing is wanted of
// the leg any more, and from then on the Feed changes nothing.
type Feed struct {
	// Fixed after construction.
	group *Group
	leg   int
	news  chan struct{}
	needs chan struct{} // see Needs
	ctx   context.Context
	end   context.CancelCauseFunc
}

// Key is the aggregation key.
func (f *Feed) Key() aggregation.Key { return f.group.Key }

// Leg is the index of the leg in [Config.Legs].
func (f *Feed) Leg() int { return f.leg }

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
		if d, ok := t.takeDemand(f, all, names); ok {
			out = append(out, d)
		}
	}
	return out
}

// TakeAll is TakeDemand for everything that is wanted of one type. ok says whether
// there is anything.
func (f *Feed) TakeAll(typ *resource.Type, names bool) (d Demand, ok bool) {
	t := f.group.lookup(typ)
	if t == nil {
		return d, false
	}
	return t.takeDemand(f, true, names)
}

// Update is what an origin said about one type.
type Update struct {
	Type *resource.Type
	// Resources are new or changed, Removed do not exist.
	Resources []*resource.Resource
	Removed   []string
	// Errors are what the origin said of single names in place of a resource
	// (C16). RemovedNames are removals as the origin wrote them, for delta
	// clients; what they remove is in Removed too. Extra holds fields of a delta
	// response that the relay does not know (A7).
	Errors, RemovedNames []resource.About
	Extra                []byte
	// Full says that Resources is everything there is (a full-state SotW
	// response or a directory): what the table holds beyond it is removed,
	// except the names in Keep, whose new copies could not be used (C5).
	Full bool
	Keep []string
	// Rejected are copies of named resources that could not be used, for those
	// who ask how the relay stands with them (K20).
	Rejected []resource.Invalid
	problems []string // what may be shown of those, in the same order
	assumed  bool     // nobody has said what Removed says
	// Version is version_info of a SotW origin. It is shown to clients who
	// see exactly this state (D7). Empty for delta origins.
	Version string
	// System is system_version_info of a delta control plane, which delta clients are shown
	// while they hold just what it called so: with Mirror that is the content of its
	// digest, else all that the leg holds then, whatever its digest says.
	System resource.SystemVersion
	// Mirror says that another node's cache has said so (see [Feed.SetServer]): its
	// guard has judged the removals, and unless Partial, Version is that of an origin
	// which sent just what the leg holds then, or empty where there is none.
	Mirror bool
	// AsOf is, with Mirror, when that was last known to be what the origin serves, while the
	// other node cannot reach that; zero where that is not known, or the other node can.
	AsOf time.Time
	// Errored are names of which clients of the other node may remember an error.
	Errored resource.Errored
	// Source is the origin's control_plane.identifier.
	Source string
	// Differences says that the origin keeps account of what it has sent, and
	// sends nothing that it takes for held (delta).
	Differences bool
	// Partial says that this does not answer what was asked, for instance a
	// fired timer (D5) or one of several frames.
	Partial bool
	// Received is when it came, and Parent the trace context that came with it from
	// another node: for traces. Zero means now, and empty none.
	Received time.Time
	Parent   string
}

// Apply stores u and signals those who can see what changed. It costs as much
// as there are changes (and resources in u), and never waits for a client.
// It returns the number of changes; after the end of the feed, none.
func (f *Feed) Apply(u Update) int {
	u.problems = problemsOf(u.Rejected)
	return f.change(u.Type, func(*Table) (Update, bool) { return u, true })
}

// Absent notes that names do not exist, as far as they are wanted and nothing
// is known of them: the origin has been silent about them for too long (C12,
// D5). Where it has never answered for the type, the stream may be dead, so that clients keep
// what they come with (K14). It returns the number of changes.
func (f *Feed) Absent(typ *resource.Type, names []string) (changes int) {
	per := f.group.cache.step
	for ; len(names) > per; names = names[per:] { // each is absent for itself, and others want the table, too
		changes += f.absent(typ, names[:per])
	}
	return changes + f.absent(typ, names)
}

func (f *Feed) absent(typ *resource.Type, names []string) int {
	return f.change(typ, func(t *Table) (Update, bool) {
		unknown := t.unknownLocked(f.leg, names)
		if leg := &t.legs[f.leg]; leg.answered == 0 {
			leg.doubted = true
		} else {
			t.noteAbsentLocked(f.leg, unknown)
		}
		return Update{Type: typ, Removed: unknown, Partial: true, assumed: t.legs[f.leg].answered == 0}, true
	})
}

// change applies what update returns while the table is locked, unless that returns false.
func (f *Feed) change(typ *resource.Type, update func(*Table) (Update, bool)) int {
	t := f.group.lookup(typ)
	if t == nil {
		return 0 // nobody asked (C10)
	}
	server := f.Server()
	t.mu.Lock()
	if f.ctx.Err() != nil {
		t.mu.Unlock()
		return 0
	}
	u, ok := update(t)
	if !ok {
		t.mu.Unlock()
		return 0
	}
	began := time.Now()
	n, mass := t.applyLocked(f.leg, u, server, began, t.woken)
	t.stampLocked(&u, began, n, t.woken)
	t.keepUpLocked(t.woken)
	woken := t.takeWokenLocked()
	holds := t.takeHoldsLocked()
	outdated := t.legs[f.leg].outdated
	t.unlockAndSignal()
	if outdated {
		t.forgetAnswered(f.leg)
	}
	f.group.changed()
	if len(woken) > 0 {
		f.group.cache.cfg.Wake(woken)
	}
	if holds {
		f.group.restoreChildren(t.Type)
	}
	if mass != nil {
		f.group.cache.cfg.Alarm(*mass)
	}
	return n
}

// takeWokenLocked empties t.woken. A map that has become large is not kept: to
// empty it costs as much as it ever held.
func (t *Table) takeWokenLocked() []*Subscription {
	if len(t.woken) == 0 {
		return nil
	}
	subs := slices.AppendSeq(make([]*Subscription, 0, len(t.woken)), maps.Keys(t.woken))
	if len(subs) > 100 {
		t.woken = make(map[*Subscription]struct{})
	} else {
		clear(t.woken)
	}
	return subs
}

// Missing returns those of names that are wanted of the leg and of which nothing
// is known, or not all that belongs to a glob.
func (f *Feed) Missing(typ *resource.Type, names []string) (missing []string) {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	for names := range slices.Chunk(names, f.group.cache.step) { // there may be very many
		t.mu.RLock()
		missing = append(missing, t.unknownLocked(f.leg, names)...)
		t.mu.RUnlock()
	}
	return missing
}

// wasAbsentLocked reports whether a name did not exist before its leg came into doubt,
// and the origin has not been asked since, or may still answer.
func (t *Table) wasAbsentLocked(leg int, name string) bool {
	l := &t.legs[leg]
	if _, is := l.absent[name]; is || !l.stale && !l.doubted {
		return false
	}
	return !t.existsLocked(name) && !t.failedLocked(name)
}

// unknownLocked is Missing for a leg.
func (t *Table) unknownLocked(leg int, names []string) (unknown []string) {
	for _, spelled := range names {
		n := resource.Canonical(spelled)
		w := t.wants[n]
		if w == nil || w.leg != leg {
			continue
		}
		if !t.knowsLocked(n) && !t.failedLocked(n) || // C16
			t.wasAbsentLocked(w.leg, n) ||
			t.isGlobLocked(n) && t.openLocked(w, n) {
			unknown = append(unknown, spelled)
		}
	}
	return unknown
}

// Waiting reports whether something is wanted of the leg of which nothing is known: a
// name, or a wildcard that the origin has not answered for. Types of which but is true
// do not count; it may be nil.
func (f *Feed) Waiting(but func(*resource.Type) bool) bool {
	for _, t := range f.group.Tables() {
		if (but == nil || !but(t.Type)) && t.waitingForOrigin(f.leg) {
			return true
		}
	}
	return false
}

func (t *Table) waitingForOrigin(leg int) bool {
	t.mu.RLock()
	lacks := t.lacksWildcardLocked(leg)
	t.mu.RUnlock()
	if lacks {
		return true
	}
	for n, w := range inSteps(t, t.mu.reading(), &t.wants) {
		if w.askedOf(leg) && !t.knowsLocked(n) {
			return true
		}
	}
	return false
}

// Types returns the types of which something is wanted of the leg, or came through
// it, in the order E1.
func (f *Feed) Types() (types []*resource.Type) {
	for _, t := range f.group.Tables() {
		t.mu.RLock()
		leg := &t.legs[f.leg]
		concerned := leg.wanted+leg.live > 0
		t.mu.RUnlock()
		if concerned {
			types = append(types, t.Type)
		}
	}
	return types
}

// Held returns the versions of all that came through the leg of a type, as the
// origin gave and spelled them: initial_resource_versions of a new delta stream to the same origin (C8).
// What the origin has removed, and the guard has not, is not among them: an origin that has
// it again would keep silent, and it would go at the end of the hold (K16). What changes
// meanwhile may be there or not, as if it had changed before or after.
func (f *Feed) Held(typ *resource.Type) map[string]string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	held := make(map[string]string)
	for _, e := range inSteps(t, t.mu.reading(), &t.entries) {
		if h := e.heldBy(f.leg); h != nil && h.version != "" && !t.legs[f.leg].guard.has(e.name) {
			held[h.res.Name] = h.version
		}
	}
	return held
}

// Told is Held with the versions that clients are told, on every node (K11).
func (f *Feed) Told(typ *resource.Type) map[string]string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	told := make(map[string]string)
	for _, e := range inSteps(t, t.mu.reading(), &t.entries) {
		if h := e.heldBy(f.leg); h != nil {
			told[h.res.Name] = h.res.Version
		}
	}
	return told
}

// Server is what [Feed.SetServer] was given last, also if that was a feed of the
// leg before the key was idle; "" if it never was.
func (f *Feed) Server() string {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.group.legs[f.leg].server
}

// SetServer notes to which of the origin's servers the versions of [Feed.Held]
// belong.
func (f *Feed) SetServer(address string) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if f.ctx.Err() != nil {
		return
	}
	l := &f.group.legs[f.leg]
	if l.current = f; l.server != "" && l.server != address {
		l.current = nil // some of what is held is still the other one's
	}
	l.server = address
}

// Current reports whether the versions of [Feed.Held] are those of [Feed.Server] by
// now, and not from before the key was idle, or from several servers.
func (f *Feed) Current() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.group.legs[f.leg].current == f
}

// Up notes that a stream to the origin is established.
func (f *Feed) Up() { f.group.setUpstream(f, nil) }

// Mute notes whether the stream to the origin that is there counts as one by its silence alone.
// It may be dead without a notice, so nothing is confirmed by it.
func (f *Feed) Mute(is bool) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.group.legs[f.leg].mute = is
}

// Down notes that there is no stream to the origin, and why. Clients are
// served what there is (K14).
func (f *Feed) Down(err error) { f.group.setUpstream(f, err) }
