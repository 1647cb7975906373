package cache

import (
	"encoding/hex"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Cause says why a table's content changed.
type Cause string

// The causes.
const (
	CauseOrigin   Cause = "upstream" // the control plane sent it
	CauseOwner    Cause = "owner"    // the node that owns the key sent it
	CauseRestored Cause = "restored" // it was restored from last known good (K14)
	CauseExpired  Cause = "expired"  // TTLs expired (F5)
	CauseKept     Cause = "kept"     // it was removed, and is kept for what refers to it (K16)
	CauseReleased Cause = "released" // removals that were held back were applied (K16)
	CauseUnfrozen Cause = "unfrozen" // what was held back while the key was frozen was applied
	CauseUndone   Cause = "undone"   // an operator undid a revision
	CausePromoted Cause = "promoted" // a rollout has released it to all clients
)

// Past summarizes a table after one update.
type Past struct {
	// Number identifies the update among all updates of the key on this node: the first is 1. Each
	// node counts for itself, from its start.
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	Cause  Cause     `json:"cause"`
	// Version is the one that SotW clients of the wildcard got (D7). Digest identifies the whole
	// content of the table, and is equal on every node for equal content (K11).
	Version string `json:"version"`
	Digest  string `json:"digest"`
	// Generation is that of the last change. Each node counts for itself.
	Generation uint64 `json:"generation"`
	// Added, Changed and Removed count the resources that the update affected; Resources is how
	// many there were afterwards.
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Removed   int `json:"removed"`
	Resources int `json:"resources"`
	// AddedNames, ChangedNames and RemovedNames are the names of the first of them, at most 10 each.
	AddedNames   []string `json:"added_names,omitempty"`
	ChangedNames []string `json:"changed_names,omitempty"`
	RemovedNames []string `json:"removed_names,omitempty"`
	// ControlPlaneVersion is the version that the control plane itself gave to the update: version_info
	// or system_version_info. Empty if it gave none, or the update is not from it.
	ControlPlaneVersion string `json:"control_plane_version,omitempty"`
	// Contents says that the contents before the update are still in memory, so that it can be shown.
	Contents bool `json:"contents,omitempty"`
	// TraceID is the id of the trace of the update; empty if it is not traced.
	TraceID string `json:"trace_id,omitempty"`
	// Source is the control_plane.identifier, Server its address; unknown ones are empty.
	Source string `json:"source,omitempty"`
	Server string `json:"server,omitempty"`
}

// past is the stored form of a Past.
type past struct {
	at                               int64 // ms of Unix time
	cause                            Cause
	number                           uint64
	version                          string // empty if it is the digest
	origin                           string // the control plane's version
	names                            changedNames
	contents                         *contents
	trace                            *[16]byte // nil if it is not traced
	digest, all                      resource.Digest
	gen                              uint64
	added, changed, removed, present uint32
	source, server                   string
	by                               uint8 // the stream
}

// history is a ring of the newest updates of a table that changed something.
type history struct {
	ring []past
	next int // index of the oldest one, once the ring is full
	// forgotten is the number of the newest update that is no longer in the ring; 0 for none.
	forgotten uint64
}

// record records what an update has changed, if anything, and when it began. Content is
// restored name by name and recorded as one update. The server is that of the stream. Of the change
// a bounded part is recorded.
func (t *core) record(u *updateTxn, at time.Time, cause Cause, server string) {
	limit := t.group.cache.cfg.History
	if u.added+u.changed+u.removed == 0 || limit <= 0 || t.group.private {
		return
	}
	digest, _ := t.store.Wildcard()
	p := past{
		at: at.UnixMilli(), cause: cause, digest: digest, version: t.wildOriginVersion(), all: t.store.All(), gen: t.store.Gen(),
		added: u.added, changed: u.changed, removed: u.removed, present: uint32(t.store.Live()), source: t.streams[u.by].source, server: server,
		origin: u.version, by: uint8(u.by),
	}
	h, hasContents := &t.history, t.keeps && (hasContents(u.edits) || u.added > namesPerUpdate && int(u.added) < t.store.Live())
	if last := h.newest(); last != nil && cause == CauseRestored && last.cause == cause && !hasContents {
		p.added, p.changed, p.removed = p.added+last.added, p.changed+last.changed, p.removed+last.removed
		p.number, p.names, p.contents = last.number, last.names, last.contents
		if len(p.names.of(edAdded)) < namesPerUpdate {
			p.names = firstNames(append(p.names.edits(), u.edits...))
		}
		*last = p
		t.spare(u.edits)
		return
	}
	p.number, p.names = t.group.recorded.Add(1), firstNames(u.edits)
	if hasContents {
		p.contents = &contents{table: t, edits: u.edits}
		t.group.cache.past.add(p.contents)
	} else {
		t.spare(u.edits)
	}
	if len(h.ring) < limit {
		h.ring = append(h.ring, p)
		return
	}
	old := &h.ring[h.next]
	h.forgotten = old.number
	t.group.cache.past.release(old.contents)
	*old = p
	h.next = (h.next + 1) % limit
}

// forgetContents forgets the previous contents of the table, whose group has ended.
func (t *Table) forgetContents() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.core.keeps = false
	for i := range t.core.history.ring {
		t.group.cache.past.release(t.core.history.ring[i].contents)
	}
}

func (h *history) newest() *past {
	if len(h.ring) == 0 {
		return nil
	}
	return &h.ring[(h.next+len(h.ring)-1)%len(h.ring)]
}

// History returns the newest updates of the table, the newest first: as many as [Config.History].
// It omits updates that changed no resource, and removals because of ended interest.
func (t *Table) History() []Past {
	t.mu.RLock()
	ring, next := slices.Clone(t.core.history.ring), t.core.history.next
	t.mu.RUnlock()
	out := make([]Past, 0, len(ring))
	for i := range ring {
		p := ring[(next+len(ring)-1-i)%len(ring)]
		one := Past{
			At: time.UnixMilli(p.at), Cause: p.cause, Version: p.version, Digest: p.all.Hex(), Generation: p.gen,
			Added: int(p.added), Changed: int(p.changed), Removed: int(p.removed), Resources: int(p.present), Source: p.source, Server: p.server,
			Number: p.number, ControlPlaneVersion: p.origin,
		}
		one.AddedNames, one.ChangedNames, one.RemovedNames = slices.Sorted(slices.Values(p.names.of(edAdded))), slices.Sorted(slices.Values(p.names.of(edChanged))), slices.Sorted(slices.Values(p.names.of(edRemoved)))
		_, one.Contents = t.group.cache.past.read(p.contents)
		if p.trace != nil {
			one.TraceID = hex.EncodeToString(p.trace[:])
		}
		if one.Version == "" {
			one.Version = p.digest.Hex()
		}
		out = append(out, one)
	}
	return out
}
