package cache

import (
	"time"

	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
)

// Snapshot is a snapshot of a table, as far as it may outlive the process. It shares its resources
// with the table, and is not changed once made.
type Snapshot struct {
	Type *resource.Type
	// TableDigest summarizes the content. A restored snapshot has none.
	TableDigest TableDigest
	// Wildcard says that Resources has the complete wildcard set, and Globs which globs it has
	// completely.
	Wildcard  bool
	Globs     []string
	Streams   []SnapshotStream
	Resources []SnapshotResource
	// Absent are names, in canonical form, that clients ask for and that are known not to exist.
	// They do not outlive the process.
	Absent []string
	// AsOf is the last time at which this was known to be what the control plane serves; zero if
	// that is unknown.
	AsOf time.Time
	// HeldBack says that the removal guard holds some of the removals back, and HoldUntil when it
	// applies them; zero for when they are released. HeldAsOf is the last time at which all that it
	// holds back was known to be what the control plane serves; zero if that is unknown.
	HeldBack  bool
	HoldUntil time.Time
	HeldAsOf  time.Time
	// Unjudged says that the removal guard had nothing to compare the set with, and a hold that
	// began with it still lasts. It does not outlive the process.
	Unjudged bool
	// Recorded says that this is all that an owner of the key had then, as it recorded it as last
	// known good.
	Recorded bool
	// Outdated says that other nodes count as having newer content, whatever AsOf is. It does not
	// outlive the process.
	Outdated bool
	// HeadDigest is the digest of the tier head from which Outdated was determined; zero
	// if the node with this snapshot knows none. It does not outlive the process.
	HeadDigest resource.Digest
}

// SnapshotStream is the state of an upstream stream.
type SnapshotStream struct {
	OriginStream
	// Server is the control plane's server that the stream led to (see [Feed.Server]), Version the
	// version_info while the content was exactly what was sent with it (D7), and Source the
	// control_plane.identifier.
	Server, Version, Source string
}

// SnapshotResource is one resource of a [Snapshot].
type SnapshotResource struct {
	Resource *resource.Resource
	// Streams are the streams with a copy of it: bits, by their index in Snapshot.Streams.
	Streams uint64
	// Expires is the end of its TTL, zero if it has none (F5).
	Expires time.Time
	// Errored says that clients with this resource may remember an error (C16). ErroredSince is
	// when the error was first sent; zero if that is unknown. The time does not outlive the
	// process.
	Errored      bool
	ErroredSince time.Time
	// AsOf is like that of the [Snapshot], where that of this resource is earlier; otherwise zero. It
	// does not outlive the process.
	AsOf time.Time
}

// heldAsOf is HeldAsOf, or AsOf if nothing is held back.
func (k *Snapshot) heldAsOf() time.Time {
	if k.HeldAsOf.IsZero() {
		return k.AsOf
	}
	return k.HeldAsOf
}

// Snapshot returns a snapshot of the table. The cost is proportional to its size, without a copy of
// a resource. ok is false if there is nothing to keep: no control plane has answered, or none since
// the table itself was restored. Restorable content that no client has asked for yet is part of it
// for the linger time.
func (t *Table) Snapshot() (k Snapshot, ok bool) { return t.snapshot(false) }

// snapshot is [Table.Snapshot]; with restored, also of a table that was restored and has no answer
// since, and of one that has nothing but names which are known not to exist.
func (t *Table) snapshot(restored bool) (k Snapshot, ok bool) {
	if t.group.private {
		return k, false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.core.stale() && !restored {
		return k, false
	}
	asOf := t.core.asOf(time.Now())
	if at := t.core.tierHead.Since(); t.core.tierHead.Standing() >= tierhead.Overtaken && at.Before(asOf) {
		asOf = at // from then on there was other content, whatever this node received
	}
	k = Snapshot{Type: t.Type, TableDigest: t.core.tableDigest(), Wildcard: t.core.demand.WildcardAnswered(), Streams: make([]SnapshotStream, len(t.core.streams)), Resources: make([]SnapshotResource, 0, t.core.store.Live()), AsOf: asOf}
	answered, seen := false, make([]resource.Digest, len(t.core.streams))
	for i := range t.core.streams {
		stream := &t.core.streams[i]
		answered = answered || t.core.demand.Stream(i).HasAnswered() || stream.confidence.FromLastGood()
		if stream.guard.Len() > 0 {
			k.HeldBack = true
			if asOf := stream.guard.Evidence().AsOf; k.HeldAsOf.IsZero() || asOf.Before(k.HeldAsOf) {
				k.HeldAsOf = asOf
			}
			if until := stream.guard.Until(); !until.IsZero() && (k.HoldUntil.IsZero() || until.Before(k.HoldUntil)) {
				k.HoldUntil = until
			}
		}
		k.Streams[i] = SnapshotStream{OriginStream: t.group.cache.cfg.Streams[i], Server: t.group.serverOf(i), Version: stream.version, Source: stream.source}
	}
	for _, e := range t.core.store.Entries() {
		if e.Res == nil {
			continue
		}
		r := SnapshotResource{Resource: e.Res, Errored: t.core.errored.Has(e.Name), ErroredSince: t.core.errored.Since(e.Name)}
		for _, h := range e.Copies() {
			r.Streams |= 1 << h.Stream
			seen[h.Stream] = seen[h.Stream].Add(e.Res.Member())
			if at := t.core.restoredAsOf(h.Stream, e.Name); !at.IsZero() && at.Before(k.AsOf) {
				r.AsOf = at
			}
		}
		if e.TTLState != nil {
			r.Expires = e.TTLState.Expires
		}
		k.Resources = append(k.Resources, r)
	}
	for i := range k.Streams {
		if seen[i] != t.core.store.Sum(i).Digest {
			k.Streams[i].Version = "" // another stream's copy is newer
		}
	}
	if restored {
		k.Absent, k.Unjudged, k.Outdated = t.core.absent(), t.core.unjudged(), t.core.outdated()
		head, _ := t.core.tierHead.Head()
		k.HeadDigest = head.Digest
	}
	for name := range t.core.store.Globs() {
		if w := t.core.demand.Get(name); w != nil && !t.core.demand.Open(w, name) {
			k.Globs = append(k.Globs, name)
		}
	}
	if t.core.pendingRestore != nil {
		t.core.pendingRestore.addTo(&k, t)
	}
	return k, answered && (k.Wildcard || len(k.Resources)+len(k.Globs)+len(k.Absent) > 0)
}

// absent returns the names that clients ask for and that are known not to exist. Another node may have
// children of what is held back here, and keeps them.
func (t *core) absent() (names []string) {
	kept := children{table: t}
	for name, w := range t.demand.All() {
		e := t.store.Get(name)
		if e == nil || e.Res != nil || e.Denied || w.Stream() == Nobody || resource.IsGlob(name) || t.store.Exists(name) || t.isAssumed(name) {
			continue
		}
		if about, failed := t.failure(name); (!failed || about.Code == resource.CodeNotFound) && !kept.mayHave(name) {
			names = append(names, name)
		}
	}
	return names
}

func (g *Group) serverOf(stream int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.Versions.Server()
}
