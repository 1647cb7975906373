package cache

// The removal guard restores what went shortly before its parents (see children), mostly
// before a client was sent that it had gone. A client that still has it has just the same, so
// it is not sent again (B31), although the entry has changed twice.

// gap is a removal of a resource that was restored as it was: from is the generation of the
// change before, and to that of the removal.
type gap struct{ from, to uint64 }

// bridges reports whether the client that asks has the resource all the same. It may have been
// sent other removals by then, and this one may be held back for it (E2), but one that
// connected since has all removals behind it. What a client has rejected it may have done.
func (g gap) bridges(q *Query) bool {
	return g.from > 0 && !q.Rejected && g.from <= q.Since.Gen && q.Since.Removed < g.to
}

// removesForced notes that a name is in an answer as removed, ahead of other changes, where the
// position of a client does not say after it that it was sent the removal. part says that it is
// an answer in parts, whose position is not known yet.
func (p *picker) removesForced(name string, part bool) {
	if l := p.table.lost[name]; l != nil && (part || p.query.Only || p.out.To.Removed < l.gap.to) {
		l.sent.Store(true)
	}
}

// gapOf is the gap that is left when what was lost is restored to e, which is a tombstone or
// nil. It is none where clients may have lost the resource without a removal, or where their
// position does not say whether they have it: they end lifetimes themselves (F5), ask for
// resources in other forms than by name (G6, B38), or drop what an error is about (C16).
func (t *Table) gapOf(l *lost, e *entry) (none gap) {
	if e == nil || e.gen != l.gap.to || e.denied || e.urn != nil || len(l.res.Aliases) > 0 || l.res.TTL > 0 {
		return none
	}
	if l.sent.Load() || t.errored.has(e.name) || len(t.remarks[e.name]) > 0 {
		return none
	}
	return l.gap
}
