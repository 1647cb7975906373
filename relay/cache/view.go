package cache

import (
	"maps"
	"sync/atomic"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// View is the content of a table with the resources of some names replaced: what the canaries of a
// rollout are sent, while all other clients are sent the table. It is immutable. A client enters and
// leaves a view by being sent the names of [Table.Differ]; its position in the table stays.
//
// A name of the view counts as changed when the table's own entry of it changed, or if there is none,
// when the view was made: it then has a generation of its own, which no entry of the table has. So a client that starts in the view is sent the replacement where others are
// sent what it replaces, and a client that enters the view later is not sent it twice. A change of the
// table's own entry does not concern clients of the view, so they pass over it. In a view that follows
// another one, names with the same resource keep their generations (see [Candidate.After]).
type View struct {
	id      uint64
	gen     uint64 // of the table when the view was made
	entries map[string]*table.Entry
	names   *Names
	origin  Stamp
}

// Replacement is what a [View] has of a name.
type Replacement struct {
	// Resource is nil if the name is absent.
	Resource *resource.Resource
	// Member says that the resource belongs to the wildcard set.
	Member bool
}

// Stamp is a control plane's version of some content.
type Stamp struct {
	// Digest is the sum over the resources of the content, Live their number.
	Digest resource.Digest
	Live   int
	// Version is the version_info, System a delta control plane's system_version_info; empty if there
	// is none.
	Version string
	System  resource.SystemVersion
}

var views atomic.Uint64 // the id of the newest view of this process

// NewView makes a view with replacements by canonical name. origin is the control plane's version of
// what it serves, which subscriptions that see exactly that in the view are given (D7). Names with
// aliases, and globs, must not be replaced. It is nil if nothing is known of the table: clients wait for
// that.
func (t *Table) NewView(replace map[string]Replacement, origin Stamp) *View {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.core.store.Gen() == 0 && !t.core.demand.WildcardAnswered() {
		return nil
	}
	v := &View{id: views.Add(1), entries: make(map[string]*table.Entry, len(replace)), origin: origin}
	names := make([]string, 0, len(replace))
	for name, r := range replace {
		if e := t.core.store.Get(name); e != nil {
			v.entries[name] = table.Replaced(name, r.Resource, e.Res, e.Gen, r.Member || e.Wild > 0)
		} else { // an answer may end after any generation (B40), so no two names have the same
			v.entries[name] = table.Replaced(name, r.Resource, nil, t.core.store.Next(), r.Member)
		}
		names = append(names, name)
	}
	v.gen, v.names = t.core.store.Gen(), NewNames(names)
	return v
}

// ID identifies the view in this process; 0 for nil.
func (v *View) ID() uint64 {
	if v == nil {
		return 0
	}
	return v.id
}

// Names are the names that are replaced.
func (v *View) Names() *Names {
	if v == nil {
		return nil
	}
	return v.names
}

// replaces reports whether the view has something else of a canonical name than the table.
func (v *View) replaces(name string) bool { return v.get(name) != nil }

// get returns what the view has of a name; nil if it is what the table has.
func (v *View) get(name string) *table.Entry {
	if v == nil {
		return nil
	}
	return v.entries[name]
}

// reaches returns the generation that a client of the view has if gen is the newest that its
// subscription may see in the table.
func (v *View) reaches(gen uint64) uint64 {
	if v == nil {
		return gen
	}
	return max(gen, v.gen)
}

// Differ returns the names in which two views differ as the subscription of w sees them: those that a
// client has to be sent when it leaves the first view and enters the second. Nil is the table. The result
// is nil if there are none. unsure says that the client has not accepted all that it was sent. It may have
// dropped the subscription meanwhile, and take what arrives for an answer to a new one (B33), so what
// exists in the first view alone counts in any case. It may lack what both views replace alike, so that
// counts, too.
func (t *Table) Differ(w *Watcher, from, to *View, unsure bool) *Names {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return nil
	}
	var names []string
	for _, name := range from.Names().With(to.Names()).list() {
		was, is := t.core.seenIn(s, from, name), t.core.seenIn(s, to, name)
		switch {
		case was != is && (was == nil || is == nil || !was.SameContent(is)):
		case unsure && t.core.exists(from, name) && !t.core.exists(to, name):
		case unsure && from.replaces(name) && to.replaces(name):
		default:
			continue
		}
		names = append(names, name)
	}
	return NewNames(names)
}

func (t *core) exists(v *View, name string) bool {
	e := t.entry(v, name)
	return e != nil && e.Res != nil
}

// seenIn returns the resource of a canonical name that s sees in a view; nil if it sees none.
func (t *core) seenIn(s *Subscription, v *View, name string) *resource.Resource {
	if e := t.entry(v, name); e != nil && s.seesNow(e) {
		return e.Res
	}
	return nil
}

// entry returns what is known of a canonical name in a view, which may be nil.
func (t *core) entry(v *View, name string) *table.Entry {
	if e := v.get(name); e != nil {
		return e
	}
	return t.store.Get(name)
}

// sumIn is sum in a view, which may be nil.
func (t *core) sumIn(s *Subscription, v *View) (digest resource.Digest, live int) {
	digest, live = t.sum(s)
	if v == nil {
		return digest, live
	}
	for name, e := range v.entries {
		if was := t.store.Get(name); was != nil && s.seesNow(was) {
			digest, live = digest.Sub(was.Res.Member()), live-1
		}
		if s.seesNow(e) {
			digest, live = digest.Add(e.Res.Member()), live+1
		}
	}
	return digest, live
}

// each calls f for what the view has of its names.
func (v *View) each(f func(*table.Entry)) {
	for _, name := range v.names.list() {
		f(v.entries[name])
	}
}

// without returns f for entries that the view does not replace.
func (v *View) without(f func(*table.Entry)) func(*table.Entry) {
	return func(e *table.Entry) {
		if !v.replaces(e.Name) {
			f(e)
		}
	}
}

// Candidate is a revision of a key's content that its canaries are sent: a [View] of each type in which
// it differs from the tables. It is immutable; nil replaces nothing.
type Candidate struct {
	// Revision names the content.
	Revision string
	views    map[*Table]*View
}

// NewCandidate makes a candidate of views by table.
func NewCandidate(revision string, views map[*Table]*View) *Candidate {
	return &Candidate{Revision: revision, views: views}
}

// After returns the candidate as clients are shown it that have seen an earlier one: what both have alike
// keeps its generations, so that they are not sent it again.
func (c *Candidate) After(earlier *Candidate) *Candidate {
	if c == nil || earlier == nil {
		return c
	}
	views := make(map[*Table]*View, len(c.views))
	for t, v := range c.views {
		views[t] = v.after(earlier.views[t])
	}
	return &Candidate{Revision: c.Revision, views: views}
}

// after is [Candidate.After] for a view. Both may be nil.
func (v *View) after(earlier *View) *View {
	if v == nil || earlier == nil {
		return v
	}
	later := *v
	later.id, later.entries = views.Add(1), maps.Clone(v.entries)
	for name, e := range v.entries {
		if was := earlier.entries[name]; was != nil && was.Res != nil && e.Res != nil && was.Res.SameContent(e.Res) && was.Member == e.Member {
			later.entries[name] = was
		}
	}
	return &later
}

// View returns the view of a table; nil if it replaces nothing there.
func (c *Candidate) View(t *Table) *View {
	if c == nil {
		return nil
	}
	return c.views[t]
}

// NewPromoted returns the candidate after its promotion: the tables have its content, and no view replaces
// anything.
func NewPromoted(revision string, tables []*Table) *Candidate {
	views := make(map[*Table]*View, len(tables))
	for _, t := range tables {
		views[t] = nil
	}
	return &Candidate{Revision: revision, views: views}
}

// IsPromoted reports whether the candidate is promoted, and changed a table.
func (c *Candidate) IsPromoted(t *Table) bool {
	if c == nil {
		return false
	}
	v, changed := c.views[t]
	return changed && v == nil
}
