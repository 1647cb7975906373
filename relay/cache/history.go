package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Cause says why a table's content became another.
type Cause string

// The causes.
const (
	CauseOrigin   Cause = "origin"   // the origin said so
	CauseOwner    Cause = "owner"    // the node said so that owns the key
	CauseRestored Cause = "restored" // it came from the last known good state (K14)
	CauseExpired  Cause = "expired"  // lifetimes came to their end (F5)
	CauseKept     Cause = "kept"     // it had gone, and is kept for what refers to it (K16)
	CauseReleased Cause = "released" // removals that were held back were done (K16)
)

// Past is what a table became by one update, in short.
type Past struct {
	At    time.Time `json:"at"`
	Cause Cause     `json:"cause"`
	// Version is what SotW clients of the wildcard were told (D7), Digest stands for
	// all that the table held, and is equal on every node for equal content (K11).
	Version string `json:"version"`
	Digest  string `json:"digest"`
	// Generation is that of the last change. Each node counts for itself.
	Generation uint64 `json:"generation"`
	// Added, Changed and Removed are how many resources were; Resources is how many
	// there were then.
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Removed   int `json:"removed"`
	Resources int `json:"resources"`
	// Source is the origin's control_plane.identifier, Server its address; what is
	// not known is empty.
	Source string `json:"source,omitempty"`
	Server string `json:"server,omitempty"`
}

// past is a Past as it is kept.
type past struct {
	at                               int64 // ms of Unix time
	cause                            Cause
	version                          string // empty where the digest stands for it
	digest, all                      resource.Digest
	gen                              uint64
	added, changed, removed, present uint32
	source, server                   string
}

// history is a ring of the newest updates of a table that changed something.
type history struct {
	ring []past
	next int // where the oldest one is, once the ring is full
}

// recordLocked notes what a turn has changed, if anything, and when it began. What is restored comes
// name by name and is one update. The server is that of the leg. It costs the same
// whatever changed.
func (t *Table) recordLocked(u *turn, at time.Time, cause Cause, server string) {
	limit := t.group.cache.cfg.History
	if u.added+u.changed+u.removed == 0 || limit <= 0 || t.group.private {
		return
	}
	p := past{
		at: at.UnixMilli(), cause: cause, digest: t.digest, all: t.allLocked(), gen: t.gen,
		added: u.added, changed: u.changed, removed: u.removed, present: uint32(t.live), source: t.legs[u.by].source, server: server,
	}
	if leg := t.wildLeg(); leg != nil && leg.version != "" && leg.live == t.members && leg.digest == t.digest {
		p.version = leg.version
	}
	h := &t.history
	if last := h.newest(); last != nil && cause == CauseRestored && last.cause == cause {
		p.added, p.changed, p.removed = p.added+last.added, p.changed+last.changed, p.removed+last.removed
		*last = p
		return
	}
	if len(h.ring) < limit {
		h.ring = append(h.ring, p)
		return
	}
	h.ring[h.next] = p
	h.next = (h.next + 1) % limit
}

func (h *history) newest() *past {
	if len(h.ring) == 0 {
		return nil
	}
	return &h.ring[(h.next+len(h.ring)-1)%len(h.ring)]
}

// History tells what the table became by its newest updates, the newest first: as
// many as [Config.History] says. Updates that changed no resource are not among them,
// nor is what went since nobody wants it any more.
func (t *Table) History() []Past {
	t.mu.RLock()
	ring, next := slices.Clone(t.history.ring), t.history.next
	t.mu.RUnlock()
	out := make([]Past, 0, len(ring))
	for i := range ring {
		p := ring[(next+len(ring)-1-i)%len(ring)]
		one := Past{
			At: time.UnixMilli(p.at), Cause: p.cause, Version: p.version, Digest: p.all.Hex(), Generation: p.gen,
			Added: int(p.added), Changed: int(p.changed), Removed: int(p.removed), Resources: int(p.present), Source: p.source, Server: p.server,
		}
		if one.Version == "" {
			one.Version = p.digest.Hex()
		}
		out = append(out, one)
	}
	return out
}
