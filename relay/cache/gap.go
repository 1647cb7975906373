package cache

// The removal guard restores what was removed shortly before its parents (see children), usually
// before clients were sent the removal. A client that still has the resource has exactly the
// restored content, so it is not sent again (B31), although the entry has changed twice.

// gap is a removal of a resource that was then restored unchanged: from is the generation of the
// change before, and to that of the removal.
type gap struct{ from, to uint64 }

// bridges reports whether the client of the query still has the resource. It may have been sent
// other removals by then, while this one is held back for it (E2), but a client that connected
// since is past all removals. A client that has rejected an update may have rejected this removal.
func (g gap) bridges(q *Query) bool {
	return g.from > 0 && !q.Rejected && g.from <= q.Since.Gen && q.Since.Removed < g.to
}

// removesForced records that an answer contains the removal of a name ahead of other changes, in
// which case the client's position afterwards does not show that the removal was sent. part says
// that the answer is sent in parts, so that its position is not known yet.
func (p *picker) removesForced(name string, part bool) {
	if l := p.table.lost[name]; l != nil && (part || p.query.Only || p.out.To.Removed < l.gap.to) {
		l.sent.Store(true)
	}
}

// gapOf returns the gap that remains when l is restored to e, which is a tombstone or nil. There is
// none if clients may have lost the resource without a removal, or if their position does not show
// whether they have it: they end TTLs themselves (F5), ask for resources by other means than the
// name (G6, B38), or drop a resource because of an error (C16).
func (t *Table) gapOf(l *lost, e *entry) (none gap) {
	if e == nil || e.gen != l.gap.to || e.denied || e.urn != nil || len(l.res.Aliases) > 0 || l.res.TTL > 0 {
		return none
	}
	if l.sent.Load() || t.errored.has(e.name) || len(t.resourceErrors[e.name]) > 0 {
		return none
	}
	return l.gap
}
