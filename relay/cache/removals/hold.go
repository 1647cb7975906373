package removals

import (
	"iter"
	"maps"
	"time"

	"xdsrelay/relay/resource"
)

// Reason says why removals are held back.
type Reason uint8

// The reasons. A mass removal includes what was held back for its parents before.
const (
	None    Reason = iota // nothing is held back
	Parents               // removals of parents are held back
	Mass                  // they are a mass removal
)

// Evidence says how far it is known that the control plane served what is about to be removed.
type Evidence struct {
	// AsOf is the last time at which it was known to be what the control plane serves.
	AsOf time.Time
	// Restored says that the stream had restored content: it may be older than the control plane's
	// previous answer.
	Restored bool
}

// Hold has the names whose removals are held back. The zero value has none. One goroutine changes it at
// a time, while no other one reads it.
type Hold struct {
	// names are the resources that stay, with their eventual replacement, nil for a removal.
	names    map[string]*resource.Resource
	reason   Reason
	until    time.Time // see Until
	evidence Evidence  // the oldest
}

// Reason returns why removals are held back.
func (h *Hold) Reason() Reason { return h.reason }

// Len returns the number of names.
func (h *Hold) Len() int { return len(h.names) }

// Has reports whether the removal of a name is held back.
func (h *Hold) Has(name string) bool {
	_, ok := h.names[name]
	return ok
}

// Names iterates over the names, in no order. Names may be released meanwhile.
func (h *Hold) Names() iter.Seq[string] { return maps.Keys(h.names) }

// Until is when the hold ends, or when the parents are looked at again; zero if the hold lasts until it
// is released, and if there is none.
func (h *Hold) Until() time.Time { return h.until }

// Evidence is the oldest evidence of what is held back.
func (h *Hold) Evidence() Evidence { return h.evidence }

// See adds evidence of some of what is held back.
func (h *Hold) See(e Evidence) {
	h.evidence.Restored = h.evidence.Restored || e.Restored
	if h.evidence.AsOf.IsZero() || e.AsOf.Before(h.evidence.AsOf) {
		h.evidence.AsOf = e.AsOf
	}
}

// Renew records that all that is held back was replaced by what the control plane served later.
func (h *Hold) Renew(asOf time.Time) { h.evidence.AsOf = asOf }

// Outcome says what has changed by a hold.
type Outcome struct {
	Begins bool // a hold with this reason begins
	More   bool // there are more names
}

// HoldMass holds back a mass removal of names, until a time by the clock now. If a mass removal is held
// back already, the new names get a full hold, too: extended is when that ends, zero if the hold lasts
// until it is released.
func (h *Hold) HoldMass(names map[string]struct{}, until, extended time.Time, e Evidence) (o Outcome) {
	before := len(h.names)
	o.Begins = h.reason != Mass
	h.reason = Mass
	h.see(e)
	for name := range names {
		h.names[name] = nil
	}
	o.More = len(h.names) > before
	switch {
	case o.Begins:
		h.until = until
	case o.More:
		h.until = extended
	}
	return o
}

// HoldForParents holds back the removal of a name, or its replacement by then, for its parents, which
// are looked at again at check. If anything is held back already, its reason and time stay.
func (h *Hold) HoldForParents(name string, then *resource.Resource, check time.Time, e Evidence) (o Outcome) {
	if o.Begins = h.reason == None; o.Begins {
		h.reason, h.until = Parents, check
	}
	h.see(e)
	o.More = !h.Has(name)
	h.names[name] = then
	return o
}

func (h *Hold) see(e Evidence) {
	if h.names == nil {
		h.names = make(map[string]*resource.Resource)
	}
	h.See(e)
}

// Postpone continues the hold until a time.
func (h *Hold) Postpone(until time.Time) { h.until = until }

// Release ends the hold on a name.
func (h *Hold) Release(name string) {
	delete(h.names, name)
	h.settle()
}

// ReleaseOthers ends the hold on all but some names: a complete set contains the others.
func (h *Hold) ReleaseOthers(but map[string]struct{}) {
	maps.DeleteFunc(h.names, func(name string, _ *resource.Resource) bool {
		_, stays := but[name]
		return !stays
	})
	h.settle()
}

func (h *Hold) settle() {
	if len(h.names) == 0 {
		*h = Hold{}
	}
}

// Take ends the hold, and returns the names with what replaces them, nil for a removal.
func (h *Hold) Take() map[string]*resource.Resource {
	names := h.names
	*h = Hold{}
	return names
}

// TakeSome is [Hold.Take] for some names.
func (h *Hold) TakeSome(names []string) map[string]*resource.Resource {
	some := make(map[string]*resource.Resource)
	for _, name := range names {
		if then, is := h.names[name]; is {
			some[name] = then
			delete(h.names, name)
		}
	}
	h.settle()
	return some
}

// Step says what is to be done with a hold.
type Step uint8

// The steps.
const (
	Stay   Step = iota // the hold continues
	Extend             // it has ended, but the control plane cannot revoke its removals at present
	End                // it ends, but for what is kept for parents
)

// Due says what is to be done with a hold at now. parentsGone says that removals of parents were
// applied just now, and revocable reports whether the control plane can revoke its removals: it is
// called for a mass removal whose time is over.
func (h *Hold) Due(now time.Time, parentsGone bool, revocable func() bool) Step {
	over := !h.until.IsZero() && !h.until.After(now)
	switch {
	case h.reason == Parents && (over || parentsGone):
		return End
	case h.reason == Mass && over && !revocable():
		return Extend
	case h.reason == Mass && over:
		return End
	}
	return Stay
}
