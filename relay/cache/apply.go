package cache

import (
	"maps"

	"xdsrelay/relay/resource"
)

// applyLocked stores u, and adds to woken the subscriptions that can see what
// changed. t.mu must be held.
func (t *Table) applyLocked(u Update, woken map[*Subscription]struct{}) (changed int) {
	t.fed.Updates++
	first, before, ignored := t.gen+1, t.digest, false
	set := func(name string, res *resource.Resource, held string) {
		t.gen++ // each change has its own, so that an update can be told in parts (B40)
		changed++
		t.setLocked(name, res, held, first, woken)
	}
	for _, res := range u.Resources {
		e := t.entries[res.Name]
		switch {
		case !t.coveredLocked(res.Name, res.Aliases):
			t.fed.Ignored++
			ignored = true
		case res.Body == nil && len(res.Aliases) == 0:
			// Either a heartbeat (F6), which changes nothing, or an old
			// server's "does not exist" (C11).
			if res.TTL == 0 && (e == nil || e.res != nil) {
				set(res.Name, nil, "")
			}
		case e != nil && e.res != nil && e.res.SameContent(res):
			e.held = res.Version // D15: the clients keep the version they know
		default:
			set(res.Name, res, res.Version)
		}
	}
	for _, name := range u.Removed {
		e := t.entries[name]
		if e != nil && e.res != nil || t.wants[name] != nil && t.lookupLocked(name) == nil {
			set(name, nil, "")
		}
	}
	if u.Full {
		for _, name := range t.missingLocked(u) {
			set(name, nil, "")
		}
	}
	t.fed.Changes += uint64(changed)
	if t.digest != before {
		t.settleVersionLocked(u, !ignored && len(u.Keep) == 0)
	}
	if u.Source != "" {
		t.source = u.Source
	}
	if !u.Partial {
		t.answerLocked(woken)
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
		said[r.Name] = struct{}{}
	}
	for _, n := range u.Keep {
		said[n] = struct{}{}
	}
	for name, e := range t.entries {
		if _, ok := said[name]; !ok && e.res != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// settleVersionLocked takes the origin's version for changed content where the
// table is exactly what the origin sent with it; content digests stand in
// otherwise, also where the origin uses one version twice (D7).
func (t *Table) settleVersionLocked(u Update, exact bool) {
	if !exact || !u.Full || u.Version == t.version {
		t.version = ""
		return
	}
	t.version = u.Version
}

// answerLocked notes that the origin has answered all that it was asked, and
// wakes who waited for that.
func (t *Table) answerLocked(woken map[*Subscription]struct{}) {
	t.releaseLocked(woken)
	if t.asked == t.answered {
		return
	}
	t.answered = t.asked
	maps.DeleteFunc(t.unanswered, func(_ string, w *want) bool { return w.seq <= t.answered })
	for s := range t.waiting {
		woken[s] = struct{}{} // the newest that it waits for may be known otherwise
		if s.seq <= t.answered {
			delete(t.waiting, s)
		}
	}
}

// releaseLocked ends the hold on possibly old state; see Group.resumeLocked.
func (t *Table) releaseLocked(woken map[*Subscription]struct{}) {
	if !t.held {
		return
	}
	t.held = false
	for _, s := range t.subs {
		woken[s] = struct{}{}
	}
}
