package cache

import (
	"time"

	"xdsrelay/relay/resource"
)

// Kept is a snapshot of a table, as far as it may outlive the process. It shares its resources with
// the table, and is not changed once made.
type Kept struct {
	Type *resource.Type
	// Edition summarizes the content. A restored snapshot has none.
	Edition Edition
	// Wildcard says that Resources has the complete wildcard set, and Globs which globs it has
	// completely.
	Wildcard  bool
	Globs     []string
	Legs      []KeptLeg
	Resources []KeptResource
	// Absent are names, in canonical form, that clients ask for and that are known not to exist.
	// They do not outlive the process.
	Absent []string
	// AsOf is the last time at which this was known to be what the control plane serves; zero if
	// that is unknown.
	AsOf time.Time
	// HeldBack says that the removal guard holds some of the removals back, and HoldUntil when it
	// applies them; zero for when they are released.
	HeldBack  bool
	HoldUntil time.Time
	// Recorded says that this is all that an owner of the key had then, as it recorded it as last
	// known good.
	Recorded bool
	// Head is the digest of the tier head from which Edition.Behind was determined; zero if the
	// node with this snapshot knows none. It does not outlive the process.
	Head resource.Digest
}

// KeptLeg is the state of an upstream stream.
type KeptLeg struct {
	Leg
	// Server is the control plane's server that the stream led to (see [Feed.Server]), Version the
	// version_info while the content was exactly what was sent with it (D7), and Source the
	// control_plane.identifier.
	Server, Version, Source string
}

// KeptResource is one resource of a [Kept].
type KeptResource struct {
	Resource *resource.Resource
	// Legs are the streams with a copy of it: bits, by their index in Kept.Legs.
	Legs uint64
	// Expires is the end of its TTL, zero if it has none (F5).
	Expires time.Time
	// Errored says that clients with this resource may remember an error (C16). ErroredSince is
	// when the error was first sent; zero if that is unknown. The time does not outlive the
	// process.
	Errored      bool
	ErroredSince time.Time
}

// Kept returns a snapshot of the table. The cost is proportional to its size, without a copy of a
// resource. ok is false if there is nothing to keep: no control plane has answered, or none since
// the table itself was restored. Restorable content that no client has asked for yet is part of it
// for the linger time.
func (t *Table) Kept() (k Kept, ok bool) { return t.kept(false) }

// kept is [Table.Kept]; with restored, also of a table that was restored and has no answer since.
func (t *Table) kept(restored bool) (k Kept, ok bool) {
	if t.group.private {
		return k, false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.staleLocked() && !restored {
		return k, false
	}
	edition := t.editionLocked()
	if restored { // other nodes treat content that is behind as older, whatever its time is
		edition.Behind = t.outdatedLocked()
	}
	asOf := t.asOfLocked(time.Now())
	if edition.Behind && t.agreed.later && t.agreed.since.Before(asOf) {
		asOf = t.agreed.since // from then on there was other content, whatever this node received
	}
	k = Kept{Type: t.Type, Edition: edition, Wildcard: t.wildKnownLocked(), Legs: make([]KeptLeg, len(t.legs)), Resources: make([]KeptResource, 0, t.live), AsOf: asOf}
	answered, seen := false, make([]resource.Digest, len(t.legs))
	for i := range t.legs {
		leg := &t.legs[i]
		answered = answered || leg.answered > 0 || leg.stale
		if len(leg.guard.names) > 0 {
			k.HeldBack = true
			if until := leg.guard.until; !until.IsZero() && (k.HoldUntil.IsZero() || until.Before(k.HoldUntil)) {
				k.HoldUntil = until
			}
		}
		k.Legs[i] = KeptLeg{Leg: t.group.cache.cfg.Legs[i], Server: t.group.serverOf(i), Version: leg.version, Source: leg.source}
	}
	for _, e := range t.entries {
		if e.res == nil {
			continue
		}
		r := KeptResource{Resource: e.res, Errored: t.errored.has(e.name), ErroredSince: t.errored.sinceOf(e.name)}
		for _, h := range e.holds() {
			r.Legs |= 1 << h.leg
			seen[h.leg] = seen[h.leg].Add(e.res.Member())
		}
		if e.life != nil {
			r.Expires = e.life.expires
		}
		k.Resources = append(k.Resources, r)
	}
	for i := range k.Legs {
		if seen[i] != t.legs[i].digest {
			k.Legs[i].Version = "" // another stream's copy is newer
		}
	}
	if restored {
		k.Absent = t.absentLocked()
		if t.agreed != nil {
			k.Head = t.agreed.head.Digest
		}
	}
	for name := range t.globs {
		if w := t.wants[name]; w != nil && !t.openLocked(w, name) {
			k.Globs = append(k.Globs, name)
		}
	}
	if t.revivable != nil {
		t.revivable.addTo(&k, t)
	}
	return k, answered && (k.Wildcard || len(k.Resources)+len(k.Globs) > 0)
}

// absentLocked returns the names that clients ask for and that are known not to exist.
func (t *Table) absentLocked() (names []string) {
	for name, w := range t.wants {
		e := t.entries[name]
		if e == nil || e.res != nil || e.denied || w.leg == Nobody || resource.IsGlob(name) || t.existsLocked(name) || t.isAssumedLocked(name) {
			continue
		}
		if about, failed := t.failureLocked(name); !failed || about.Code == resource.CodeNotFound {
			names = append(names, name)
		}
	}
	return names
}

func (g *Group) serverOf(leg int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.legs[leg].server
}
