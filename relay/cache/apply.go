package cache

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// applyLocked stores what a leg said, and adds to woken the subscriptions that
// can see what changed. It returns how much did, and a mass removal that is news; nil
// for none. t.mu must be held.
func (t *Table) applyLocked(by int, u Update, server string, began time.Time, woken map[*Subscription]struct{}) (changed int, mass *MassRemoval) {
	t.fed.Updates++
	leg := &t.legs[by]
	before, live, ignored := leg.digest, leg.live, false
	change := turn{table: t, by: by, first: t.gen + 1, woken: woken, final: u.Mirror}
	leg.differences = leg.differences || u.Differences
	kept := children{table: t}
	for _, res := range u.Resources {
		switch {
		case !t.mayHoldLocked(by, res):
			t.fed.Ignored++
			ignored = true
			if u.Differences && !t.coveredLocked(by, res.Key, res.Aliases) {
				leg.strayLocked(res.Key, res.Name)
			}
		case res.DoNotCache && !t.group.sole: // K17
			change.hide(res)
			ignored = true
		case res.Heartbeat():
			change.beat(res)
		case !u.Mirror && change.keepChild(&kept, res):
			ignored = true
		case res.Body == nil && len(res.Aliases) == 0: // C11: an old server's "does not exist"
			if e := t.entries[res.Key]; e != nil {
				change.drop(e)
			} else {
				change.absent(res.Key)
			}
		default:
			change.put(res)
		}
	}
	var missing []*entry
	if u.Full {
		missing = t.missingLocked(by, u)
	}
	mass = t.guardLocked(by, u, live, missing, &kept)
	var assumed []string
	if u.assumed || u.Mirror && u.Partial {
		assumed = t.unknownLocked(by, u.Removed)
	}
	for _, spelled := range u.Removed {
		change.remove(spelled)
	}
	t.assumeLocked(by, assumed)
	for _, a := range u.Errors {
		stays := change.refuse(a)
		ignored = ignored || stays
	}
	for _, e := range missing {
		if !leg.guard.has(e.name) {
			change.drop(e)
		}
	}
	if len(leg.strays) > maxStrays {
		leg.dropStraysLocked()
	}
	t.rejectLocked(by, u)
	change.remark(u)
	change.learn(u.Errored)
	changed = int(t.gen + 1 - change.first)
	t.fed.Changes += uint64(changed)
	switch {
	case u.Mirror && t.Type.FullState && !u.Partial:
		leg.version = u.Version
	case leg.digest != before:
		leg.settleVersion(u, !ignored && len(u.Keep)+len(leg.guard.names) == 0)
	}
	switch {
	case u.Mirror && u.System.Version != "":
		leg.system = u.System
	case leg.digest != before && !ignored && len(leg.guard.names) == 0:
		leg.system = resource.SystemVersion{Version: u.System.Version, Digest: leg.digest}
	}
	leg.heard(u, server)
	if u.Mirror || !u.Partial {
		leg.mirroredAsOf = u.AsOf
	}
	cause := CauseOrigin
	if u.Mirror {
		cause = CauseOwner
	}
	t.recordLocked(&change, began, cause, server)
	switch {
	case !u.Partial:
		t.answerLocked(by, woken)
	case u.Mirror && leg.unsettled.IsZero():
		leg.unsettled = began // the owner has more to say: this is between two states (E5)
	}
	return changed, mass
}

// mayHoldLocked reports whether a leg was asked for res (C10), and is the one to
// ask: no origin may speak for what another one serves (G3).
func (t *Table) mayHoldLocked(by int, res *resource.Resource) bool {
	return t.coveredLocked(by, res.Key, res.Aliases) && t.oneOriginLocked(t.legOf(res.Key), by)
}

// missingLocked returns what a leg holds, or refuses to show, and its full state
// leaves out. It looks for it only if there is something.
func (t *Table) missingLocked(by int, u Update) (missing []*entry) {
	said, left := make(map[string]struct{}, len(u.Resources)+len(u.Keep)+len(u.Errors)), t.legs[by].live+t.legs[by].denied
	say := func(name string) {
		if _, twice := said[name]; twice {
			return
		}
		said[name] = struct{}{}
		if e := t.entries[name]; e != nil && e.belongsTo(by) {
			left--
		}
	}
	for _, r := range u.Resources {
		say(r.Key)
	}
	for _, n := range u.Keep {
		say(resource.Canonical(n))
	}
	for _, a := range u.Errors {
		say(resource.Canonical(a.Name)) // K8: not shown is not gone
	}
	if left == 0 {
		return nil
	}
	missing = make([]*entry, 0, left)
	for name, e := range t.entries {
		if _, ok := said[name]; !ok && e.belongsTo(by) {
			missing = append(missing, e)
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
	t.settleLocked(by, woken)
	leg := &t.legs[by]
	leg.stale, leg.doubted, leg.idled, leg.slept, leg.confirmedTo, leg.absent = false, false, false, time.Time{}, time.Time{}, nil
	leg.assumed = nil
	if leg.asked == leg.answered {
		return
	}
	leg.answered = leg.asked
	if len(leg.unanswered) <= t.group.cache.step {
		maps.DeleteFunc(leg.unanswered, func(n string, w *want) bool { return !t.openLocked(w, n) })
	} else {
		leg.outdated = true // see forgetAnswered
	}
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

// settleLocked ends the hold on possibly old state of a leg (see Group.resumeLocked),
// and the wait for what a new stream says: there is an answer, or none will come soon.
func (t *Table) settleLocked(by int, woken map[*Subscription]struct{}) {
	leg := &t.legs[by]
	if !leg.held && leg.unsettled.IsZero() {
		return
	}
	if !leg.unsettled.IsZero() {
		leg.confirmedTo = t.legAsOfLocked(by, time.Now())
	}
	leg.held, leg.unsettled = false, time.Time{}
	for _, s := range t.subs {
		woken[s] = struct{}{}
	}
}

// unholdLocked ends the hold because its time is over, which confirms nothing: the
// leg goes on waiting for what its stream says.
func (t *Table) unholdLocked(by int, woken map[*Subscription]struct{}) {
	leg := &t.legs[by]
	if !leg.held {
		return
	}
	leg.held = false
	for _, s := range t.subs {
		woken[s] = struct{}{}
	}
}
