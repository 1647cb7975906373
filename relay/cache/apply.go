package cache

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// applyLocked stores an answer of a stream, and adds to woken the subscriptions that can see a
// change. It returns the number of changes, and a mass removal that is news; nil for none. t.mu
// must be held.
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
		case res.DoNotCache && !t.group.sole: // must not be cached (K17)
			change.hide(res)
			ignored = true
		case res.Heartbeat():
			change.beat(res)
		case !u.Mirror && change.keepChild(&kept, res):
			ignored = true
		case res.Body == nil && len(res.Aliases) == 0: // an old server's way to say that it does not exist (C11)
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
		leg.unsettled = began // the owner has more to send: this is between two states (E5)
	}
	return changed, mass
}

// mayHoldLocked reports whether a stream was asked for res (C10), and is the one to ask: no control
// plane may answer for what another one serves (G3).
func (t *Table) mayHoldLocked(by int, res *resource.Resource) bool {
	return t.coveredLocked(by, res.Key, res.Aliases) && t.oneOriginLocked(t.legOf(res.Key), by)
}

// missingLocked returns the entries that a stream has a copy of, or is refused, and that its new
// full state omits. It searches only if there are any.
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
		say(resource.Canonical(a.Name)) // refused is not removed (K8)
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

// settleVersion takes the control plane's version for changed content if the stream holds exactly
// what was sent with it. Otherwise, and if the control plane uses one version twice, content
// digests replace it (D7).
func (l *tableLeg) settleVersion(u Update, exact bool) {
	if !exact || !u.Full || u.Version == l.version {
		l.version = ""
		return
	}
	l.version = u.Version
}

// answerLocked records that a stream has answered all that it was asked, and wakes the
// subscriptions that waited for that.
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
		woken[s] = struct{}{} // the newest interest that it waits for may be known otherwise
		if s.waits[i].seq > leg.answered {
			continue
		}
		if s.waits = slices.Delete(s.waits, i, i+1); len(s.waits) == 0 {
			s.waits = nil // frees the array
			delete(t.waiting, s)
		}
	}
}

// settleLocked ends the withholding of possibly old content of a stream (see Group.resumeLocked),
// and the wait for the first answer of a new stream: there is an answer, or none will arrive soon.
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

// unholdLocked ends the withholding because its time has passed, which confirms nothing: the wait
// for the first answer of a new stream continues.
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
