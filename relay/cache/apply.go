package cache

import (
	"maps"
	"slices"

	"xdsrelay/relay/resource"
)

// applyLocked stores what a leg said, and adds to woken the subscriptions that can see what
// changed. t.mu must be held.
func (t *Table) applyLocked(by int, u Update, woken map[*Subscription]struct{}) (changed int) {
	t.fed.Updates++
	first, before, ignored := t.gen+1, t.digest, false
	set := func(name string, res *resource.Resource, held string) {
		t.gen++ // each change has its own, so that an update can be told in parts (B40)
		t.setLocked(name, res, held, first, woken)
	}
	for _, res := range u.Resources {
		e := t.entries[res.Key]
		switch {
		case !t.coveredLocked(res.Key, res.Aliases):
			t.fed.Ignored++
			ignored = true
		case res.Body == nil && len(res.Aliases) == 0:
			// Either a heartbeat (F6), which changes nothing, or an old
			// server's "does not exist" (C11).
			if res.TTL == 0 && (e == nil || e.res != nil) {
				set(res.Key, nil, "")
			}
		case e != nil && e.res != nil && e.res.SameContent(res):
			e.held = res.Version // D15: the clients keep the version they know
		default:
			set(res.Key, res, res.Version)
		}
	}
	for _, spelled := range u.Removed {
		name := resource.Canonical(spelled)
		e := t.entries[name]
		if e != nil && e.res != nil || t.wants[name] != nil && !t.knowsLocked(name) {
			set(name, nil, "")
			t.spelledByOriginLocked(name, spelled)
		}
		t.answerGlobLocked(name, woken)
	}
	if u.Full {
		for _, name := range t.missingLocked(u) {
			set(name, nil, "")
		}
	}
	changed = int(t.gen + 1 - first)
	t.fed.Changes += uint64(changed)
	if t.digest != before {
		t.legs[by].settleVersion(u, !ignored && len(u.Keep) == 0)
	}
	if u.Source != "" {
		t.legs[by].source = u.Source
	}
	if !u.Partial {
		t.answerLocked(by, woken)
	}
	return changed
}

// missingLocked returns the live names that a full state leaves out.
func (t *Table) missingLocked(u Update) (missing []string) {
	if t.live == 0 {
		return nil
	}
	said := make(map[string]struct{}, len(u.Resources)+len(u.Keep))
	for _, r := range u.Resources {
		said[r.Key] = struct{}{}
	}
	for _, n := range u.Keep {
		said[resource.Canonical(n)] = struct{}{}
	}
	for name, e := range t.entries {
		if _, ok := said[name]; !ok && e.res != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// settleVersion takes the origin's version for changed content where the leg
// holds exactly what the origin sent with it; content digests stand in otherwise,
// also where the origin uses one version twice (D7).
func (l *tableLeg) settleVersion(u Update, exact bool) {
	if !exact || !u.Full || u.Version == l.version {
		l.version = ""
		return
	}
	l.version = u.Version
}

// answerLocked notes that a leg has answered all that it was asked, and wakes
// who waited for that.
func (t *Table) answerLocked(by int, woken map[*Subscription]struct{}) {
	t.releaseLocked(by, woken)
	leg := &t.legs[by]
	if leg.asked == leg.answered {
		return
	}
	leg.answered = leg.asked
	maps.DeleteFunc(leg.unanswered, func(n string, w *want) bool {
		g := t.globs[n]
		// To have answered others is no answer for a glob of which nothing came.
		return w.seq <= leg.answered && (g == nil || g.live > 0)
	})
	for s := range t.waiting {
		i := slices.IndexFunc(s.waits, func(w wait) bool { return w.leg == by })
		if i < 0 {
			continue
		}
		woken[s] = struct{}{} // the newest that it waits for may be known otherwise
		if s.waits[i].seq > leg.answered {
			continue
		}
		if s.waits = slices.Delete(s.waits, i, i+1); len(s.waits) == 0 {
			s.waits = nil // lets go of the array
			delete(t.waiting, s)
		}
	}
}

// releaseLocked ends the hold on possibly old state of a leg; see
// Group.resumeLocked.
func (t *Table) releaseLocked(by int, woken map[*Subscription]struct{}) {
	if !t.legs[by].held {
		return
	}
	t.legs[by].held = false
	for _, s := range t.subs {
		woken[s] = struct{}{}
	}
}
