package cache

import (
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Arrived compares claims about names of which nothing was known with what has arrived since a
// position (B37). If the client turns out to have some of it, Arrived returns the names that
// changed since and that the client must be sent; the client then counts as being at gen, except
// for removals. Otherwise ok is false, and the client has to be sent all changes since. rest are the
// claims about names of which there is still nothing to send. All others have ended: the client has the
// resource, or it is sent the resource or its removal instead of what it returned with. v, which may be nil, is
// the view that the client sees.
func (t *Table) Arrived(w *Watcher, v *View, since Position, claims []resource.Held) (send *Names, gen uint64, rest []resource.Held, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return nil, 0, claims, false
	}
	has, kept := make(map[*table.Entry]struct{}), children{table: &t.core}
	for _, c := range claims {
		e := t.core.entry(v, c.Name)
		there, changed := false, uint64(0)
		if e != nil {
			there, changed = s.sees(e)
		}
		switch {
		case there:
			// A resource that was there at the position was sent, so the client no longer has the claimed one.
			if changed > since.Gen && (e.Born > since.Gen || v.replaces(e.Name)) && e.Res.Version == c.Version {
				has[e] = struct{}{}
			}
		case e != nil && changed > since.Gen && e.Born > 0 && !t.core.isAssumed(e.Name) && !kept.mayHave(e.Name): // a removal
		default:
			rest = append(rest, c)
		}
	}
	if len(has) == 0 {
		return nil, 0, rest, false
	}
	var names []string
	p := picker{table: &t.core, sub: s, query: Query{Since: since, KeepRemoved: true, View: v}, out: &Changes{}}
	seen := make(map[*table.Entry]struct{})
	p.eachSince(func(e *table.Entry) {
		if _, twice := seen[e]; twice {
			return
		}
		seen[e] = struct{}{}
		if _, held := has[e]; !held && p.mustSend(e) {
			names = append(names, e.Name)
		}
	})
	return NewNames(names), v.reaches(s.gen), rest, true
}
