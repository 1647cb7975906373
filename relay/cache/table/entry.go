package table

import (
	"xdsrelay/relay/cache/list"
	"xdsrelay/relay/resource"
)

// Entry is one name in a store: a resource, or the knowledge that the name is absent. The latter is
// a tombstone, which stays so that clients can be notified. Only the [Store] changes an Entry.
type Entry struct {
	Name string // canonical (G1)
	// The embedded [Copy] is the copy that clients see; without a resource the name is known to be
	// absent.
	Copy
	Gen uint64 // generation of the last change
	// Named and Wild are the generations of the last change that is visible by name, and by the
	// wildcard alone; 0 if there was none.
	Named, Wild uint64
	// Born is the generation at which the present resource appeared, or of a tombstone, at which
	// the last one did. Lived is that of the first resource; 0 if there never was one.
	Born, Lived uint64
	// Changed is when Gen was, in milliseconds of Unix time.
	Changed int64
	// First is the generation of the first change of the same update: what arrived together is sent
	// together, as far as it fits (D13).
	First   uint64
	changes list.Link[Entry]
	rare    *rare // nil for most entries; see has
	// Member says that the entry belongs to the wildcard set, because the stream of the wildcard has
	// a copy (D11).
	Member bool
	// Denied says that clients may keep what they have of a removed resource: its control plane
	// refuses to show it, and has not removed it (K8).
	Denied bool
}

// rare is what few entries have. There may be millions of entries, so it has memory of its own.
type rare struct {
	second     *Copy
	gap        Gap
	last       *resource.Resource
	former     []string
	urn        *structure // the extra state of a structured name; nil for all others
	tombstones list.Link[Entry]
}

// with returns the rare part of e to be changed. It makes one where there is none.
func (e *Entry) with() *rare {
	if e.rare == nil {
		e.rare = new(rare)
	}
	return e.rare
}

// has returns the rare part of e to be read.
func (e *Entry) has() *rare {
	if e.rare == nil {
		return &none
	}
	return e.rare
}

var none rare // never changed

// slim frees the memory of what e, which is no tombstone, no longer has.
func (e *Entry) slim() {
	if r := e.rare; r != nil && r.second == nil && r.gap == (Gap{}) && r.last == nil && len(r.former) == 0 && r.urn == nil {
		e.rare = nil
	}
}

// Second is the copy of the same resource from another stream; nil if there is none.
func (e *Entry) Second() *Copy { return e.has().second }

// Gap is a removal that clients need not learn of, because they still have the resource.
func (e *Entry) Gap() Gap { return e.has().gap }

// Last is the resource that a tombstone replaced: SotW clients see it until their routes no longer
// need it (E5).
func (e *Entry) Last() *resource.Resource { return e.has().last }

// Former holds names that were aliases of the entry, as far as there is interest in them.
func (e *Entry) Former() []string { return e.has().former }

// Older is the entry that changed before e did; nil if e is the oldest.
func (e *Entry) Older() *Entry { return e.changes.Older }

// Newer is the entry that changed after e did; nil if e is the newest.
func (e *Entry) Newer() *Entry { return e.changes.Newer }

// State is what is known of a name: a resource, or that the name is absent when there is none.
type State struct {
	Copy
	Second *Copy
	Member bool
	// Noticed says that subscribers of the wildcard are notified in any case. Denied says that the
	// control plane of the copy's stream refuses to show the resource.
	Noticed, Denied bool
}

// Share is what subscribers by name see of an entry.
type Share struct {
	Res    *resource.Resource // nil: nothing
	Member bool               // of the wildcard set
}

// Share returns what subscribers by name see of e.
func (e *Entry) Share() Share { return Share{e.Res, e.Member} }

// Share returns what subscribers by name see of s.
func (s *State) Share() Share { return Share{s.Res, s.Member} }

// Differs reports whether the change from e to s is visible by name, and by the wildcard.
func (e *Entry) Differs(s *State) (named, wild bool) {
	return e.Res != s.Res || s.Res == nil, e.Member || s.Member || s.Noticed
}

// Gap is a removal of a resource that was then restored unchanged: From is the generation of the
// change before, and To that of the removal. The removal guard restores what was removed shortly
// before its parents, usually before clients were sent the removal. A client that still has the
// resource has exactly the restored content, so it is not sent again (B31), although the entry has
// changed twice.
type Gap struct{ From, To uint64 }

// Bridges reports whether a client that has all changes up to generation gen, and all removals up
// to generation removed, still has the resource. It may have been sent other removals by then,
// while this one is held back for it (E2), but a client that connected since is past all removals.
func (g Gap) Bridges(gen, removed uint64) bool {
	return g.From > 0 && g.From <= gen && removed < g.To
}

// The links of an entry in the lists of a store and of a glob.
func changesLink(e *Entry) *list.Link[Entry]   { return &e.changes }
func tombstoneLink(e *Entry) *list.Link[Entry] { return &e.with().tombstones }
func heartbeatLink(e *Entry) *list.Link[Entry] { return &e.TTLState.heartbeats }
func memberLink(e *Entry) *list.Link[Entry]    { return &e.with().urn.place }
