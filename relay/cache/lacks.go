package cache

import (
	"time"

	"xdsrelay/relay/resource"
)

// Lack is a difference between what a subscription sees now and what it saw at an
// earlier generation.
type Lack struct {
	// Name is spelled as the origin does.
	Name string
	// Gen is the generation of the last change, and Changed when it was.
	Gen     uint64
	Changed time.Time
	// Resource is what there is now, nil where it was removed.
	Resource *resource.Resource
	// Was says that there was a resource of the name at the earlier generation:
	// another one, of which nothing more is known, since only the newest is kept. Maybe
	// says that even this is not known: the name has come and gone meanwhile.
	Was, Maybe bool
}

// Lacks returns what of a subscription has changed since a generation, by time, the
// newest first. Removals that are no longer known are left out; a client that is that
// far behind is told to start anew. It costs as much as there were changes.
func (s *Subscription) Lacks(since uint64) []Lack {
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []Lack
	for e := t.changes.newest; e != nil && e.gen > since; e = e.changes.next {
		there, gen := s.seesLocked(e)
		was := e.born > 0 && e.born <= since
		maybe := !was && e.lived > 0 && e.lived <= since
		if gen <= since || !there && !was && !maybe {
			continue
		}
		l := Lack{Name: t.calledLocked(e.name), Gen: gen, Changed: time.UnixMilli(e.changed), Was: was, Maybe: maybe}
		if there {
			l.Name, l.Resource = e.res.Name, e.res
		}
		out = append(out, l)
	}
	return out
}
