package cache

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/resource"
)

// apply stores an answer of a stream, and adds to woken the subscriptions that can see a change. It
// returns the number of changes, and a mass removal that is news; nil for none.
func (t *core) apply(by int, u Update, server string, began time.Time, woken map[*Subscription]struct{}) (changed int, mass *MassRemoval) {
	t.fed.Updates++
	stream := &t.streams[by]
	before, shown, ignored := t.sentSum(by), t.store.Sum(by).Digest, false
	change := updateTxn{table: t, by: by, first: t.store.Gen() + 1, woken: woken, final: u.Mirror != nil, version: u.newestVersion()}
	if stream.gate != nil && u.Mirror == nil {
		stream.gate.fresh = stream.gate.fresh && t.fresh()
		change.gate = stream.gate
	}
	change.noted, change.fresh = t.noted, t.noted != nil && t.fresh()
	change.order = t.ordering(by, &u)
	if u.Differences {
		t.demand.SendsDifferences(by)
	}
	kept := children{table: t}
	for _, res := range u.Resources {
		switch {
		case !t.mayHold(by, res):
			t.fed.Ignored++
			ignored = true
			if u.Differences && !t.covered(by, res.Key, res.Aliases) {
				t.demand.AddGhost(by, res.Key, res.Name)
			}
		case res.DoNotCache && !t.group.sole: // must not be cached (K17)
			change.setUncacheable(res)
			ignored = true
		case res.Heartbeat():
			change.heartbeat(res)
		case u.Mirror == nil && change.keepChild(&kept, res):
			ignored = true
		case res.Body == nil && len(res.Aliases) == 0: // an old server's way to say that it does not exist (C11)
			change.lose(res.Key)
		default:
			change.accept(res)
		}
	}
	if u.Full || u.Mirror != nil {
		stream.order = change.order.order()
	}
	var missing []string
	if u.Full {
		missing = t.missing(by, u)
	}
	mass = t.guardRemovals(by, u, before.Live, missing, &kept)
	var assumed []string
	if u.Kind == silence || u.Mirror != nil && u.Kind == Partial {
		assumed = t.unknown(by, u.Removed)
	}
	for _, spelled := range u.Removed {
		change.remove(spelled)
	}
	for _, spelled := range assumed {
		stream.names.Assume(resource.Canonical(spelled))
	}
	for _, a := range u.Errors {
		stays := change.refuse(a)
		ignored = ignored || stays
	}
	for _, name := range missing {
		if !stream.guard.Has(name) {
			change.lose(name)
		}
	}
	t.hearRestored(&u, missing)
	t.demand.BoundGhosts(by)
	t.reject(by, u)
	change.noteErrors(u)
	if u.Mirror != nil {
		change.learn(u.Mirror.Errored)
	}
	changed = int(t.store.Gen() + 1 - change.first)
	t.fed.Changes += uint64(changed)
	t.settleVersions(by, &u, before.Digest, shown, !ignored)
	stream.heard(u, server)
	if changed > 0 && before.Live > 0 && u.Mirror == nil {
		stream.changed = began
	}
	wasKept := stream.keptByOwner
	switch {
	case u.Mirror != nil:
		stream.mirroredAsOf, stream.keptByOwner = u.Mirror.AsOf, u.Mirror.Kept
	case u.Kind == Answer:
		stream.mirroredAsOf, stream.keptByOwner = time.Time{}, false
	}
	if wasKept && !stream.keptByOwner {
		t.judgeOpen(woken)
	}
	t.overtaken(by, &u, began)
	cause := CauseOrigin
	if u.Mirror != nil {
		cause = CauseOwner
	}
	t.record(&change, began, cause, server)
	t.hear(&u)
	switch {
	case u.Kind == Unmentioned:
		stream.unmentioned = nil
	case u.Differences && u.Kind == Answer && stream.confidence.FromLastGood():
		e := t.evidence(by, true)
		stream.unmentioned = &e
	}
	switch {
	case u.Kind == Answer:
		t.noteUnjudged(by, before.Live, began)
		t.answer(by, woken)
	case u.Mirror != nil:
		stream.confidence.PartAnswered(began) // this is between two states (E5)
	}
	return changed, mass
}

// mayHold reports whether a stream was asked for res (C10), and is the one to ask: no control
// plane may answer for what another one serves (G3).
func (t *core) mayHold(by int, res *resource.Resource) bool {
	return t.covered(by, res.Key, res.Aliases) && t.oneOrigin(t.streamOf(res.Key), by)
}

// missing returns the canonical names that a stream owns and that its new full state omits. It
// searches only if there are any.
func (t *core) missing(by int, u Update) (missing []string) {
	has := t.sentSum(by)
	if len(u.Keep)+len(u.Errors)+has.Denied == 0 && len(u.Resources) == has.Live {
		var all resource.Digest
		for _, r := range u.Resources {
			all = all.Add(r.Member())
		}
		if all == has.Digest {
			return nil
		}
	}
	said, left := make(map[string]struct{}, len(u.Resources)+len(u.Keep)+len(u.Errors)), has.Live+has.Denied
	say := func(name string) {
		if _, twice := said[name]; twice {
			return
		}
		said[name] = struct{}{}
		if t.owns(by, name) {
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
	missing = make([]string, 0, left)
	for name := range t.owned(by) {
		if _, ok := said[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

// answer records that a stream has answered all that it was asked, and wakes the
// subscriptions that waited for that.
func (t *core) answer(by int, woken map[*Subscription]struct{}) {
	stream := &t.streams[by]
	t.effect(by, stream.confidence.Answered(), woken)
	stream.older = nil
	stream.names.AnswerAll()
	if !t.demand.Answer(by, t.group.cache.step) { // see forgetAnswered
		return
	}
	for s := range t.waiting {
		i := slices.IndexFunc(s.waits, func(w wait) bool { return w.stream == by })
		if i < 0 {
			continue
		}
		woken[s] = struct{}{} // the newest interest that it waits for may be known otherwise
		if !t.demand.Stream(by).AnsweredTo(s.waits[i].seq) {
			continue
		}
		if s.waits = slices.Delete(s.waits, i, i+1); len(s.waits) == 0 {
			s.waits = nil // frees the array
			delete(t.waiting, s)
		}
	}
}

// effect does what a transition of a stream's confidence does besides changing its state.
// woken may be nil if the transition wakes no clients.
func (t *core) effect(by int, e confidence.Effect, woken map[*Subscription]struct{}) {
	if e&confidence.Forget != 0 {
		t.streams[by].names.EndSilences()
	}
	if e&confidence.Wake != 0 {
		for _, s := range t.subs {
			woken[s] = struct{}{}
		}
	}
}

// releaseLocked ends the waits of clients for a stream that will not answer soon.
func (t *core) release(by int, woken map[*Subscription]struct{}) {
	asOf := t.streamAsOf(by, time.Now())
	t.effect(by, t.streams[by].confidence.Released(asOf), woken)
}

// unhold ends the withholding of possibly old content because its time has passed, which
// confirms nothing.
func (t *core) unhold(by int, woken map[*Subscription]struct{}) {
	t.effect(by, t.streams[by].confidence.HoldEnded(), woken)
}
