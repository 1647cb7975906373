package cache

import (
	"slices"
	"strings"

	"xdsrelay/relay/resource"
)

// Known says what is known of a resource at one moment of the past.
type Known string

// Knowledge about a resource of the past.
const (
	KnownContent Known = "content"  // its content
	KnownAbsent  Known = "absent"   // that it did not exist
	NotKept      Known = "not_kept" // that it existed; its content is not kept, or not any longer
)

// Moment is a resource at one moment of the past.
type Moment struct {
	Known    Known
	Resource *resource.Resource // with KnownContent
}

// ResourceChange is a resource that differs between two updates.
type ResourceChange struct {
	Name     string
	From, To Moment
}

// Comparison is how the content of a table differs between two updates of its key.
type Comparison struct {
	Changes []ResourceChange // by name
	// Unlisted is the number of changes whose names are not recorded, or that are too many.
	Unlisted int
	// Forgotten says that updates in between are no longer remembered.
	Forgotten bool
}

// maxCompared bounds the resources of a comparison.
const maxCompared = 1000

// Compare returns how the content after update number to differs from that after update number
// from, which is older. The numbers are those of [Past.Number], of any type of the key. The cost is
// bounded by what the history may hold.
func (t *Table) Compare(from, to uint64) Comparison {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := Comparison{Forgotten: t.core.history.forgotten > from}
	ring, next := t.core.history.ring, t.core.history.next
	differ := make(map[string]*ResourceChange)
	later := make(map[string]struct{}) // names of which the content after to is still to be found
	unsure := false                    // whether updates after to changed names that are not recorded
	for i := range ring {
		p := &ring[(next+i)%len(ring)]
		if p.number <= from {
			continue
		}
		edits, kept := t.group.cache.past.read(p.contents)
		if !kept {
			edits = p.names.edits()
		}
		if p.number > to {
			for i := range edits {
				e := &edits[i]
				if _, is := later[e.name]; is {
					differ[e.name].To = e.before()
					delete(later, e.name)
				}
			}
			unsure = unsure || count(edits, edChanged)+count(edits, edRemoved) < int(p.changed+p.removed)
			continue
		}
		out.Unlisted += int(p.added+p.changed+p.removed) - len(edits)
		for i := range edits {
			e := &edits[i]
			c := differ[e.name]
			if c == nil {
				if len(differ) == maxCompared {
					out.Unlisted++
					continue
				}
				c = &ResourceChange{Name: e.name, From: e.before()}
				differ[e.name] = c
			}
			if e.kind == edRemoved {
				c.To = Moment{Known: KnownAbsent}
				delete(later, e.name)
			} else {
				later[e.name] = struct{}{}
			}
		}
	}
	for name := range later {
		differ[name].To = t.core.present(name, unsure)
	}
	out.Unlisted = max(0, out.Unlisted)
	for _, c := range differ {
		if !c.same() {
			out.Changes = append(out.Changes, *c)
		}
	}
	slices.SortFunc(out.Changes, func(a, b ResourceChange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// before is the resource before an edit.
func (e *edit) before() Moment {
	switch {
	case e.kind == edAdded:
		return Moment{Known: KnownAbsent}
	case e.from == nil:
		return Moment{Known: NotKept}
	}
	return Moment{KnownContent, e.from}
}

// present is the resource of a name now; unsure says that it may have changed unnoticed.
func (t *core) present(name string, unsure bool) Moment {
	e := t.store.Get(name)
	if unsure || e == nil || e.Res == nil {
		return Moment{Known: NotKept}
	}
	return Moment{KnownContent, e.Res}
}

// same reports whether the resource is known to be the same before and after.
func (c *ResourceChange) same() bool {
	switch {
	case c.From.Known != c.To.Known:
		return false
	case c.From.Known == KnownContent:
		return c.From.Resource.SameContent(c.To.Resource)
	}
	return c.From.Known == KnownAbsent
}

func count(edits []edit, kind editKind) (n int) {
	for i := range edits {
		if edits[i].kind == kind {
			n++
		}
	}
	return n
}
