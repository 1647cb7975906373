package cache

import "xdsrelay/relay/cache/table"

// removesForced records that an answer contains the removal of a name ahead of other changes, in
// which case the client's position afterwards does not show that the removal was sent. part says
// that the answer is sent in parts, so that its position is not known yet.
func (p *picker) removesForced(name string, part bool) {
	if l := p.table.lost[name]; l != nil && (part || p.query.Scope.IsOnDemand() || p.out.To.Removed < l.gap.To) {
		l.sent.Store(true)
	}
}

// gapOf returns the gap that remains when l is restored to e, which is a tombstone or nil. There is
// none if clients may have lost the resource without a removal, or if their position does not show
// whether they have it: they end TTLs themselves (F5), ask for resources by other means than the
// name (G6, B38), or drop a resource because of an error (C16).
func (t *core) gapOf(l *lost, e *table.Entry) (none table.Gap) {
	if e == nil || e.Gen != l.gap.To || e.Denied || e.Structured() || len(l.res.Aliases) > 0 || l.res.TTL > 0 {
		return none
	}
	if l.sent.Load() || t.errored.Has(e.Name) || len(t.notes.Of(e.Name)) > 0 {
		return none
	}
	return l.gap
}
