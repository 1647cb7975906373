package cache

import (
	"context"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/link"
	"xdsrelay/relay/resource"
)

// Feed is the upstream side of one stream of a group: it carries the clients' demand to the control
// plane, and the answers back. One goroutine runs a Feed. Its context ends when the group has had
// no clients for the linger time, or the stream no demand; from then on the Feed changes nothing.
type Feed struct {
	// Fixed after construction.
	group  *Group
	stream int
	news   chan struct{}
	needs  chan struct{} // see Needs
	ctx    context.Context
	end    context.CancelCauseFunc
}

// Key is the aggregation key.
func (f *Feed) Key() aggregation.Key { return f.group.Key }

// Stream is the index of the stream in [Config.Streams].
func (f *Feed) Stream() int { return f.stream }

// Node is the identity of the relay towards the control plane (K4). It must not be changed.
func (f *Feed) Node() *corev3.Node { return f.group.Node }

// News is signaled when [Feed.TakeDemand] or [Feed.TakeVerdicts] has something to return.
func (f *Feed) News() <-chan struct{} { return f.news }

// TakeDemand returns, for each type, what to ask of the control plane since the last call. With all
// it returns the whole demand, for a new stream. With names it fills in the full lists, as SotW
// needs them.
func (f *Feed) TakeDemand(all, names bool) []Demand { return f.TakeDemandBut(nil, all, names) }

// TakeDemandBut is TakeDemand without the types for which but returns true: theirs is taken later. but may be
// nil.
func (f *Feed) TakeDemandBut(but func(*resource.Type) bool, all, names bool) []Demand {
	return f.demands(func(t *Table) (Demand, bool) {
		if but != nil && but(t.Type) {
			return Demand{}, false
		}
		return t.takeDemand(f, all, names)
	})
}

// demands collects what of returns for each type.
func (f *Feed) demands(of func(*Table) (Demand, bool)) (out []Demand) {
	for _, t := range f.group.Tables() {
		if d, ok := of(t); ok {
			out = append(out, d)
		}
	}
	return out
}

// TakeAll is TakeDemand for the whole demand of one type. ok reports whether there is any.
func (f *Feed) TakeAll(typ *resource.Type, names bool) (d Demand, ok bool) {
	t := f.group.lookup(typ)
	if t == nil {
		return d, false
	}
	return t.takeDemand(f, true, names)
}

// CopyDemand is TakeDemand for a stream that is opened while others to the same control plane are in
// use: what these have been asked for and clients still want. Later changes are taken for all of them.
func (f *Feed) CopyDemand(names bool) []Demand {
	return f.demands(func(t *Table) (Demand, bool) { return t.copyDemand(f, names) })
}

// CopyOf is CopyDemand for one type. ok reports whether anything was asked for.
func (f *Feed) CopyOf(typ *resource.Type, names bool) (d Demand, ok bool) {
	t := f.group.lookup(typ)
	if t == nil {
		return d, false
	}
	return t.copyDemand(f, names)
}

// Update is what a control plane sent about one type.
type Update struct {
	Type *resource.Type
	// Resources are new or changed, each name once. Removed do not exist.
	Resources []*resource.Resource
	Removed   []string
	// Errors are what the control plane sent for single names instead of a resource (C16).
	// RemovedNames are removals as the control plane wrote them, for delta clients; the names that
	// they remove are in Removed, too. Extra holds fields of a delta response that the relay does
	// not know (A7).
	Errors, RemovedNames []resource.About
	Extra                []byte
	// Full says that Resources is complete (a full-state SotW response or a directory): everything
	// else in the table is removed, except the names in Keep, whose new copies could not be used
	// (C5).
	Full bool
	Keep []string
	// Rejected are copies of named resources that could not be used, for the client status (K20).
	Rejected []resource.Invalid
	problems []string // the part of Rejected that may be shown, in the same order
	// Kind says whether this answers what was asked.
	Kind UpdateKind
	// Version is version_info of a SotW control plane. Clients that see exactly this state get it
	// (D7). Empty for delta.
	Version string
	// System is system_version_info of a delta control plane. Delta clients get it while they hold
	// exactly the state that it named: with a Mirror the content of its digest, otherwise all that
	// the stream holds then, whatever its digest says.
	System resource.SystemVersion
	// Mirror is set if the update is from another node's cache (see [Feed.SetServer]). That node's
	// removal guard has judged the removals. If it is an [Answer], Version is that of a control plane
	// which sent exactly what the stream holds then, or empty where there is none.
	Mirror *Mirror
	// Source is the control_plane.identifier.
	Source string
	// Differences says that the control plane tracks what it has sent, and omits what it believes
	// the relay holds (delta).
	Differences bool
	// Received is when the update arrived, and Parent is the trace context that another node sent
	// with it: for traces. Zero means now, and empty none.
	Received time.Time
	Parent   string
}

// UpdateKind is what an update proves besides what is in it.
type UpdateKind uint8

// The kinds of updates.
const (
	// Answer: the control plane has answered all that it was asked.
	Answer UpdateKind = iota
	// Partial: it answers nothing, for instance as one of several frames.
	Partial
	// Unmentioned: Removed are resources from before the stream that its answers have not mentioned.
	Unmentioned
	// silence: the control plane was silent about Removed for too long (D5).
	silence
)

// Mirror is what an update from another node's cache has besides that of a control plane.
type Mirror struct {
	// Versions are the control plane's versions of the updates that are in it, the oldest first.
	Versions []string
	// AsOf is when the content was last known to be what the control plane serves, while the other node
	// cannot reach it; zero if that is unknown, or the other node can reach it.
	AsOf time.Time
	// Kept says that the other node holds back the removal of resources that refer to some of the type.
	Kept bool
	// Errored are names for which clients of the other node may remember an error.
	Errored resource.Errored
}

// Apply stores u and signals the subscriptions that can see a change. The cost is proportional to
// the number of changes (and resources in u), and Apply never waits for a client. It returns the
// number of changes; after the end of the feed, none.
func (f *Feed) Apply(u Update) int {
	u.problems = problemsOf(u.Rejected)
	return f.change(u.Type, func(*Table) (Update, bool) { return u, true })
}

// Absent records that names do not exist, as far as there is interest in them and nothing is known
// of them: the control plane has been silent about them for too long (C12, D5). If it has not
// answered for the type since the stream leads to it, the stream may be dead, so clients keep what they resume with (K14).
// Absent returns the number of changes.
func (f *Feed) Absent(typ *resource.Type, names []string) (changes int) {
	per := f.group.cache.step
	for ; len(names) > per; names = names[per:] { // each name is absent independently, and others need the table, too
		changes += f.absent(typ, names[:per])
	}
	return changes + f.absent(typ, names)
}

func (f *Feed) absent(typ *resource.Type, names []string) int {
	return f.change(typ, func(t *Table) (Update, bool) {
		unknown, c := t.core.unknown(f.stream, names), &t.core.streams[f.stream].confidence
		proven := t.core.demand.Stream(f.stream).HasAnswered() && c.Silent()
		if proven {
			t.core.noteAbsent(f.stream, unknown)
		} else {
			c.NamesAssumed()
		}
		u := Update{Type: typ, Removed: unknown, Kind: silence}
		if proven {
			u.Kind = Partial
		}
		return u, true
	})
}

// change applies what update returns while the table is locked, unless update returns false.
func (f *Feed) change(typ *resource.Type, update func(*Table) (Update, bool)) int {
	t := f.group.lookup(typ)
	if t == nil {
		return 0 // no client asked (C10)
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
	began, edits, notes := time.Now(), t.core.edits(f.stream), t.core.notedEdits()
	n, mass := t.core.apply(f.stream, u, server, began, t.core.woken)
	t.core.rememberUpdate(&u, began, n, t.core.woken)
	t.core.recheckHead(t.core.woken)
	woken := t.core.takeWoken()
	holds := t.core.takeHolds()
	differs := t.core.streams[f.stream].gate != nil && t.core.differs()
	held, noted := t.core.edits(f.stream) != edits, t.core.notedEdits() != notes
	outdated := t.core.demand.Stream(f.stream).Outdated()
	t.unlockAndSignal()
	if outdated {
		t.forgetAnswered(f.stream)
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
	if differs {
		f.group.judgeUndone()
	}
	if held {
		f.group.pendingChanged()
	}
	if noted {
		f.group.changesNoted(began)
	}
	return n
}

// takeWoken empties t.woken. It drops a map that has become large, because clearing one costs
// as much as it ever held.
func (t *core) takeWoken() []*Subscription {
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

// Earlier returns the resources of a type that the stream has sent; nothing if there is no table for the
// type. It is safe for concurrent use.
func (f *Feed) Earlier(typ *resource.Type) resource.Earlier {
	t := f.group.lookup(typ)
	if t == nil {
		return resource.Earlier{}
	}
	get := func(name []byte) *resource.Resource {
		t.mu.RLock()
		defer t.mu.RUnlock()
		if g := t.core.streams[f.stream].gate; g != nil {
			if c, pending := g.Get(string(name)); pending {
				return c.Sent
			}
		}
		e := t.core.store.GetBytes(name)
		if e == nil {
			return nil
		}
		if c := e.CopyFrom(f.stream); c != nil {
			return c.Res
		}
		return nil
	}
	at, places := t.orderOf(f.stream)
	return resource.Earlier{Get: get, At: at, Places: places}
}

// Missing returns those of names that the stream has interest in and of which nothing is known, or
// not all that belongs to a glob.
func (f *Feed) Missing(typ *resource.Type, names []string) (missing []string) {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	for names := range slices.Chunk(names, f.group.cache.step) { // there may be very many
		t.mu.RLock()
		missing = append(missing, t.core.unknown(f.stream, names)...)
		t.mu.RUnlock()
	}
	return missing
}

// wasAbsent reports whether a name did not exist before its stream's content became
// uncertain, and the control plane has not been asked since, or may still answer.
func (t *core) wasAbsent(stream int, name string) bool {
	l := &t.streams[stream]
	if l.names.IsSilent(name) || !l.confidence.Unconfirmed() {
		return false
	}
	return !t.store.Exists(name) && !t.failed(name)
}

// unknown is Missing for a stream.
func (t *core) unknown(stream int, names []string) (unknown []string) {
	for _, spelled := range names {
		n := resource.Canonical(spelled)
		w := t.demand.Get(n)
		if w == nil || w.Stream() != stream {
			continue
		}
		if !t.store.Knows(n) && !t.failed(n) || // an error is known, too (C16)
			t.wasAbsent(w.Stream(), n) ||
			t.isGlob(n) && t.demand.Open(w, n) {
			unknown = append(unknown, spelled)
		}
	}
	return unknown
}

// Waiting reports whether the stream has interest in something of which nothing is known: a name,
// or a wildcard that the control plane has not answered. Types for which but returns true do not
// count; but may be nil.
func (f *Feed) Waiting(but func(*resource.Type) bool) bool {
	for _, t := range f.group.Tables() {
		if (but == nil || !but(t.Type)) && t.waitingForOrigin(f.stream) {
			return true
		}
	}
	return false
}

func (t *Table) waitingForOrigin(stream int) bool {
	t.mu.RLock()
	lacks := t.core.demand.LacksWildcard(stream)
	t.mu.RUnlock()
	if lacks {
		return true
	}
	for n, w := range t.core.interestsInSteps(t.mu.reading()) {
		if w.AskedOf(stream) && !t.core.store.Knows(n) {
			return true
		}
	}
	return false
}

// Types returns the types that the stream has interest in, or content of, in the order E1.
func (f *Feed) Types() (types []*resource.Type) {
	for _, t := range f.group.Tables() {
		t.mu.RLock()
		concerned := t.core.demand.Stream(f.stream).Wanted()+t.core.store.Sum(f.stream).Live > 0
		t.mu.RUnlock()
		if concerned {
			types = append(types, t.Type)
		}
	}
	return types
}

// Held returns the versions of all resources of a type from this stream, as the control plane gave
// and spelled them, whether clients see them or not: the initial_resource_versions of a new delta
// stream to the same control plane (C8). Resources that the control plane has removed, and the removal guard has not, are omitted: a
// control plane that has one again would stay silent, and the resource would be removed at the end
// of the hold (K16). Concurrent changes may be included or not, as if they had happened before or
// after.
func (f *Feed) Held(typ *resource.Type) map[string]string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	held := make(map[string]string)
	for _, e := range t.core.entriesInSteps(t.mu.reading()) {
		if h := e.CopyFrom(f.stream); h != nil && h.Version != "" && !t.core.streams[f.stream].guard.Has(e.Name) {
			held[h.Res.Name] = h.Version
		}
	}
	t.addPending(f.stream, held)
	return held
}

// SentVersions is Held with the versions that clients get on every node (K11).
func (f *Feed) SentVersions(typ *resource.Type) map[string]string {
	t := f.group.lookup(typ)
	if t == nil {
		return nil
	}
	sent := make(map[string]string)
	for _, e := range t.core.entriesInSteps(t.mu.reading()) {
		if h := e.CopyFrom(f.stream); h != nil {
			sent[h.Res.Name] = h.Res.Version
		}
	}
	return sent
}

// Server is the last argument of [Feed.SetServer], also of an earlier feed of the stream before the
// key was idle; "" if there was none.
func (f *Feed) Server() string {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.group.streams[f.stream].link.Versions.Server()
}

// SetServer records which server of the control plane the versions of [Feed.Held] belong to.
func (f *Feed) SetServer(address string) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	if f.ctx.Err() != nil {
		return
	}
	f.group.streams[f.stream].link.Versions.SentBy(address)
}

// Current reports whether all versions of [Feed.Held] are those of [Feed.Server] by now, and not
// from before the key was idle, or from several servers.
func (f *Feed) Current() bool {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	return f.group.streams[f.stream].link.Versions.AreCurrent()
}

// Up records that a stream to the control plane is established.
func (f *Feed) Up() { f.group.setUpstream(f, nil) }

// Mute records whether the stream counts as established by its silence alone. It may be dead
// without a notice, so it confirms nothing.
func (f *Feed) Mute(is bool) {
	v := link.Heard
	if is {
		v = link.Mute
	}
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	f.group.streams[f.stream].link.Hear(v)
}

// Down records that there is no stream to the control plane, and why. Clients are served from the
// present content (K14).
func (f *Feed) Down(err error) { f.group.setUpstream(f, err) }
