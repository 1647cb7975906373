package fleet

import "slices"

// stepKey is everything that decides what a response does to a client.
type stepKey struct {
	from *state
	body *body
	// asked is what the client has ever asked for on the stream; everything for
	// a wildcard.
	asked *set
	// allow is what may come again although the client holds it.
	allow *set
}

// step is what a response does to a client. It is immutable and shared.
type step struct {
	to    *state
	allow *set // what may still come again
	// changed are the resources that are new or different, resent counts those
	// that are not.
	changed *set
	resent  int
	// due are the times at which changes were intended that came with this
	// response, or were jumped over, in ns since 1970.
	due      []int64
	problems []problem
}

// stepLocked finds out what a response does, unless that is known. v.mu is held.
func (v *view) stepLocked(k stepKey) *step {
	if s, ok := v.steps.get(k); ok {
		return s
	}
	s := &step{problems: slices.Clip(k.body.problems)} // which others append to, too
	if v.fleet.cfg.Delta || !k.body.kind.info().wild {
		v.merge(k, s)
	} else {
		v.replace(k, s)
	}
	if s.allow = k.allow; k.allow != nil && k.allow.all {
		s.allow = k.asked // all of it may come once
		if k.body.kind.info().wild {
			s.allow = nil
		}
	}
	s.allow = v.share(s.allow.minus(k.body.names))
	if k.from.answered && k.from.newest < s.to.newest {
		s.due = v.fleet.world.due(k.body.kind, v.key, len(v.fleet.views), k.from.newest, s.to.newest)
	}
	v.steps.put(k, s, 8+len(s.due))
	return s
}

func (s *step) note(k Kind, format string, args ...any) {
	s.problems = append(s.problems, problemf(k, format, args...))
}

// merge does what a response does that speaks for the resources in it.
func (v *view) merge(k stepKey, s *step) {
	b, typ := k.body, k.body.kind.info().name
	delta := v.fleet.cfg.Delta
	sum, newest := k.from.sum, k.from.newest
	var changed []uint64
	excused := false // there is a reason for the response
	for _, i := range b.items {
		old, had := k.from.get(i.number), k.from.has.has(i.number)
		now := held{i.version, i.revision}
		switch {
		case !k.asked.has(i.number):
			s.note(UnaskedName, "%s of type %s", v.name(b.kind, i.number), typ)
		case had && now.revision < old.revision && !v.fleet.mayReturn(old.revision):
			s.note(WentBack, "%s of type %s changed from revision %d back to %d", v.name(b.kind, i.number), typ, old.revision, now.revision)
		case had && now == old && k.allow.has(i.number):
			excused = true
		case had && now == old && delta:
			s.note(Resent, "%s of type %s at version %q, which the client holds", v.name(b.kind, i.number), typ, i.version)
		}
		if had && now == old {
			s.resent++
			continue
		}
		if had {
			sum -= sumOf(i.number, old)
		}
		sum += sumOf(i.number, now)
		changed = setBit(changed, i.number)
		newest = max(newest, now.revision)
	}
	if !delta {
		v.checkMerged(k, s, len(changed) > 0, excused)
	}
	s.changed = v.share(newSet(changed))
	has := v.share(k.from.has.union(b.names).minus(b.removed))
	gone := b.removed
	gone.each(func(i int) {
		if !k.asked.has(i) {
			s.note(UnaskedName, "%s of type %s, which was removed", v.name(b.kind, i), typ)
		}
		if k.from.has.has(i) {
			sum -= sumOf(i, k.from.held[i])
		}
	})
	s.to = v.stateLocked(b, k.from, sum, newest, has, func() []held {
		all := append([]held(nil), k.from.held...)
		for _, i := range b.items {
			for len(all) <= i.number {
				all = append(all, held{})
			}
			all[i.number] = held{i.version, i.revision}
		}
		gone.each(func(i int) {
			if i < len(all) {
				all[i] = held{}
			}
		})
		return all
	})
}

// checkMerged checks a SotW response of a type whose responses may hold a part.
func (v *view) checkMerged(k stepKey, s *step, changed, excused bool) {
	b, typ := k.body, k.body.kind.info().name
	switch {
	case !changed && !excused && len(b.items) > 0:
		s.note(Resent, "a response of %d resources of type %s, all of which the client holds, like %s", len(b.items), typ, v.name(b.kind, b.items[0].number))
	case changed && k.from.answered && b.version != "" && k.from.version == b.version && k.from.has.same(k.from.has.union(b.names)):
		s.note(VersionReused, "a response of type %s has the version %q of the one before, and other content", typ, b.version)
	}
}

// replace does what a response does that is the whole state.
func (v *view) replace(k stepKey, s *step) {
	b, typ := k.body, k.body.kind.info().name
	var sum uint64
	newest := k.from.newest
	var changed []uint64
	for _, i := range b.items {
		old, had := k.from.get(i.number), k.from.has.has(i.number)
		now := held{revision: i.revision}
		sum += sumOf(i.number, now)
		newest = max(newest, now.revision)
		if had && now.revision < old.revision && !v.fleet.mayReturn(old.revision) {
			s.note(WentBack, "%s of type %s changed from revision %d back to %d", v.name(b.kind, i.number), typ, old.revision, now.revision)
		}
		if had && now == old {
			s.resent++
		} else {
			changed = setBit(changed, i.number)
		}
	}
	s.changed = v.share(newSet(changed))
	if s.changed == nil && k.from.answered && k.from.has.same(b.names) && k.allow == nil {
		s.note(Resent, "a full state of type %s that is the one before, at version %q", typ, b.version)
	}
	s.to = v.stateLocked(b, k.from, sum, newest, b.names, func() []held {
		most := len(k.from.held)
		for _, i := range b.items {
			most = max(most, i.number+1)
		}
		all := make([]held, most)
		for _, i := range b.items {
			all[i.number] = held{revision: i.revision}
		}
		return all
	})
}
