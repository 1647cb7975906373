package cache

import (
	"errors"
	"math"
	"slices"
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// ErrTooOld says that a client is so far behind that the removals it missed are no longer known. It
// has to start over on another stream.
var ErrTooOld = errors.New("too far behind: removals since the client's last response are unknown")

// Position is what a client has of a table: all changes up to generation Gen, all removals up to
// generation Removed, which lags behind while removals are held back for make-before-break (E2),
// and all notes up to Noted: heartbeats, and what was sent about names besides resources.
type Position struct{ Gen, Removed, Noted uint64 }

// Start is the position of a client that has nothing.
var Start = Position{Gen: 0, Removed: math.MaxUint64}

// Changes is the answer to a Query.
type Changes struct {
	// To is the client's position once it has been sent.
	To Position
	// Resources are in the order of their last change, or of their names.
	Resources []*resource.Resource
	// News are those of Resources that changed or were forced; in a full state the others are included
	// for completeness.
	News []*resource.Resource
	// Removed are names that do not exist, sorted, and in the control plane's spelling if it ever
	// sent one.
	Removed []string
	// More says that there is more to send than Limit allows.
	More bool
	// Withheld are forced names that still have to be sent: those that do not exist, which
	// KeepRemoved holds back, and those for which there was no room. Unrefreshed are names to
	// refresh for which there was none.
	Withheld, Unrefreshed *Names
	// Removals is what KeepRemoved does, or would do, to the answer.
	Removals Removals
	// Unknown are forced names of which nothing is known yet. Unjudged are those of them that the
	// client asks for by a glob or the wildcard only: if they turn out not to exist, that is no
	// change; see [Table.Gone].
	Unknown, Unjudged *Names
	// Heartbeats are resources that the client has and whose TTL was renewed (F6).
	Heartbeats []*resource.Resource
	// Lifetimes are the remaining TTLs of Resources and Heartbeats (F3), if they were asked for.
	Lifetimes map[*resource.Resource]time.Duration
	// Errors are encoded entries of resource_errors (K8), RemovedNames of removed_resource_names;
	// Extra holds encoded fields that are passed on unchanged, between delta streams (A7).
	Errors, RemovedNames [][]byte
	Extra                []byte
	// Failed are the names that Errors are about, in canonical form.
	Failed []string
	// Locals are how many of Errors are the relay's own (K15).
	Locals int
	// Version identifies all that the subscription sees (D7). Derived says that it was computed
	// from content, so that equality proves equal state.
	Version string
	Derived bool
	// System is a delta control plane's version of exactly what the subscription sees, if there is
	// one; otherwise empty. It is informational (D7).
	System resource.SystemVersion
	// Source is the control_plane.identifier, or those of several.
	Source string
	// Known says that the control plane has answered for all that the subscription asks for: what
	// is missing here does not exist (K13).
	Known bool
	// Newest is the generation of the table's content, whether sent or left to further parts.
	Newest uint64
	// Replaced says that it has something of the view, see [Query], that the table has not.
	Replaced bool
}

// Removals is what [Query.KeepRemoved] does to an answer.
type Removals uint8

const (
	// NoRemovals: nothing. The answer needs no wait.
	NoRemovals Removals = iota
	// SomeRemovals: it was not set, and would hold something back, or might.
	SomeRemovals
	// KeptFromNode: it holds removals back from another node, which takes the resources that it still
	// has for current ones.
	KeptFromNode
)

// Empty reports whether there is nothing to send.
func (c *Changes) Empty() bool {
	return len(c.Resources)+len(c.Removed)+len(c.Heartbeats)+len(c.Errors)+len(c.RemovedNames)+len(c.Extra) == 0
}

// Changes answers q for the subscription of w. The cost is proportional to the number of changes
// since the position (or of names in the subscription, if these are fewer), plus the forced names;
// for a full state to what the subscription sees.
func (t *Table) Changes(w *Watcher, q Query) (Changes, error) {
	c, loose, err := t.changesSince(w, q)
	slices.Sort(c.Removed) // there may be very many
	sortByName(c.News[:loose.news])
	sortByName(c.Resources[:loose.all])
	return c, err
}

// unordered is how many of the first resources of an answer are in no order: they are sorted by
// name once the table is unlocked.
type unordered struct{ news, all int }

// changesSince is Changes with some resources, and all removed names, in no order.
func (t *Table) changesSince(w *Watcher, q Query) (c Changes, loose unordered, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return Changes{To: q.Since}, loose, nil
	}
	// A client that had another subscription before may be further.
	gen := max(q.View.reaches(s.gen), q.Since.Gen)
	c = Changes{To: Position{gen, gen, q.Since.Noted}, Newest: gen, Source: t.core.source(s)}
	if q.KeepRemoved {
		c.To.Removed = q.Since.Removed
	}
	c.Known = t.core.known(s) && !(q.Reader == OtherNode && t.core.assumes(s))
	p := picker{table: &t.core, sub: s, query: q, out: &c}
	if q.Scope == NotesOnly {
		c.To = q.Since
		p.pickNotes()
		p.finish()
		return c, loose, nil
	}
	all, floor := t.core.store.Floors() // tombstones of names with interest stay
	if s.key.wildcard {
		floor = all
	}
	t.core.eachGlob(s, func(g *table.Glob) { floor = max(floor, g.Floor()) })
	if q.Since.Removed < floor {
		return c, loose, ErrTooOld
	}
	onDemand := q.Scope.IsOnDemand()
	if !onDemand {
		p.pickSince()
	}
	if q.Force != nil || q.Refresh != nil {
		p.pickForced()
	}
	if p.exceeds() {
		p.pickPart()
	}
	if onDemand && p.leftOut() {
		c.To = q.Since
		if c.To == Start && !c.Empty() {
			c.To.Removed = t.core.store.Gen() // the client has something from now on
		}
	}
	c.News = slices.Clip(c.Resources)
	if !q.Scope.isQuiet() {
		if !c.More && !onDemand {
			p.pickNotes()
		}
		p.pickForcedErrors()
	}
	if q.Scope.isWhole() && !c.Empty() {
		c.Resources, c.Heartbeats = nil, nil
		p.pickWhole()
	}
	t.core.calledAll(c.Removed)
	switch {
	case q.Reader == OtherNode && q.KeepRemoved && (c.Withheld != nil || p.withholds()):
		c.Removals = KeptFromNode
	case len(c.Removed)+len(c.RemovedNames)+len(c.Errors) > 0:
		c.Removals = SomeRemovals
	}
	p.finish()
	return c, p.loose, nil
}

// known reports whether all streams that s depends on have answered for what it asks for.
func (t *core) known(s *Subscription) bool {
	if len(s.waits) == 0 && s.globs == 0 {
		return true
	}
	if s.key.wildcard && !t.demand.WildcardAnswered() {
		return false
	}
	for i := range t.streams {
		if !t.streamKnown(i, s) {
			return false
		}
	}
	return true
}

// streamKnown reports whether a stream has answered for the names of s.
func (t *core) streamKnown(stream int, s *Subscription) bool {
	// A member is no answer for all of its glob.
	lacks := func(n string) bool { return t.isGlob(n) || !t.store.Exists(n) }
	return !t.demand.OpenAmong(stream, s.names, s.open, lacks) // s.open is usually answered last
}

// wildVersion is the version of the wildcard set.
func (t *core) wildVersion() string {
	if version := t.wildOriginVersion(); version != "" {
		return version
	}
	digest, _ := t.store.Wildcard()
	return digest.Hex()
}

// wildOriginVersion is the control plane's version of exactly the wildcard set; empty if there
// is none.
func (t *core) wildOriginVersion() string {
	stream := t.wildStream()
	if stream == nil || stream.version == "" {
		return ""
	}
	digest, members := t.store.Wildcard()
	if has := t.store.Sum(t.demand.Wildcard().Stream()); has.Live != members || has.Digest != digest {
		return ""
	}
	return stream.version
}

// sum returns the digest of all that s sees, and the number of those resources.
func (t *core) sum(s *Subscription) (digest resource.Digest, live int) {
	if s.key.wildcard {
		all, members := t.store.Wildcard()
		return s.digest.Sub(s.members.digest).Add(all), s.live - s.members.live + members
	}
	return s.digest, s.live
}

// version is the version of all that s sees in a view (D7): the control plane's own if that is
// exactly what it sent, otherwise a digest. leftover are resources that s still sees although they are
// removed.
func (t *core) version(s *Subscription, v *View, leftover resource.Digest) (version string, derived bool) {
	digest, live := t.sumIn(s, v)
	if leftover == (resource.Digest{}) {
		if at := t.stamp(s, v); at.Version != "" && live == at.Live && digest == at.Digest {
			return at.Version, false
		}
	}
	return digest.Add(leftover).Hex(), true
}

// system is a delta control plane's version of exactly what s sees in a view; empty if s sees
// less, or what several have sent.
func (t *core) system(s *Subscription, v *View) (none resource.SystemVersion) {
	at := t.stamp(s, v)
	if digest, live := t.sumIn(s, v); live != at.Live || digest != at.Digest {
		return none
	}
	return at.System
}

// stamp is the version that the only control plane of s gives to what it serves; the zero value
// if there are several.
func (t *core) stamp(s *Subscription, v *View) (none Stamp) {
	by := t.onlyStream(s)
	switch {
	case by == Nobody:
		return none
	case v != nil:
		return v.origin
	}
	has := t.store.Sum(by)
	return Stamp{Digest: has.Digest, Live: has.Live, Version: t.streams[by].version, System: t.systemVersion(by)}
}
