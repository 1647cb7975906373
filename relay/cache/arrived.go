package cache

import (
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Arrived compares claims about names of which nothing was known with what has arrived since a
// position (B37). If the client turns out to have some of it, Arrived returns the names that
// changed since and that the client must be sent; the client then counts as being at gen, except
// for removals. Otherwise ok is false, and nothing changes. rest are the claims about names that
// are still unknown, or that are wrong. v, which may be nil, is the view that the client sees.
func (t *Table) Arrived(w *Watcher, v *View, since Position, claims []resource.Held) (send *Names, gen uint64, rest []resource.Held, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := w.sub
	if s == nil {
		return nil, 0, claims, false
	}
	has := make(map[*table.Entry]struct{})
	for _, c := range claims {
		if e := t.core.entry(v, c.Name); e != nil {
			if there, changed := s.sees(e); there && changed > since.Gen && e.Res.Version == c.Version {
				has[e] = struct{}{}
				continue
			}
		}
		rest = append(rest, c)
	}
	if len(has) == 0 {
		return nil, 0, claims, false
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
