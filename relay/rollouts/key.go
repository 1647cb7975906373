package rollouts

import (
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// maxActs bounds the acts of a key without a pause between them. Each leads to another state, and a whole
// rollout has fewer.
const maxActs = 32

// key is the rollout of a key. Controller.mu guards it.
type key struct {
	c     *Controller
	group *cache.Group
	rule  *rule

	state   *rollout.Key
	salt    string
	history []Decision // the newest last
	deciding

	pendingSince time.Time // since when something has been pending; zero: nothing is

	role Role
	keyInTier
}

// deciding is what a node knows about a key because it decides about it. It begins with the zero value, also if
// the node decides again: what it knew is out of date by then.
type deciding struct {
	overlay   *cache.Overlay   // the revision on its way, or the promoted one while it is proven; nil: none
	candidate *cache.Candidate // of overlay, while it is on its way
	arms      *arms            // of overlay
	people    people           // of the last step
	granted   int              // tokens of the step
	former    []former         // the newest first: the counterpart of state.Former
	counts    rollout.Counts
	verdict   rollout.Verdict
	why       rollout.Reason // why nothing is done
	whySince  time.Time      // since when it waits for that
	due       time.Time      // when to look again without a reason; zero: never
	next      reveal
	unshown   *Effective // what next is about; nil: nothing
	running   bool       // a rollout that has started has not ended: see stats.go

	acknowledged *cache.Overlay // the control plane needs not wait for scouts of this revision
	inquiry      *inquiry       // of the step; nil: nothing is asked

	decidingInTier
}

// reveal is what clients are about to see once the records are written.
type reveal uint8

const (
	nothing reveal = iota
	theStep
	thePromotion
	// byOrder is a promotion without checks, which needs no record: it is for emergencies.
	byOrder
)

func (c *Controller) newKey(g *cache.Group, r *rule) *key {
	k := &key{c: c, group: g, salt: newSalt()}
	now := time.Now()
	if earlier, has := c.records.all.Get(g.Key); has && c.cfg.Tier == nil {
		k.salt, k.history, k.state = earlier.Salt, earlier.History, rollout.Restore(earlier.unproven(), r.policy, now)
	} else {
		k.state = rollout.New(r.policy)
	}
	k.setRule(r)
	k.running = k.state.IsJudged()
	return k
}

// followsOrders makes a key that begins follow the orders of the cache. The record may be older.
func (k *key) followsOrders(now time.Time) {
	if isFrozen(k.group) {
		k.state.Stop(rollout.Frozen, now)
	} else {
		k.state.Release(rollout.Frozen, now)
	}
}

// isFrozen reports whether an order holds back what the control plane of a key sends.
func isFrozen(g *cache.Group) bool {
	_, freeze, undone := g.Gate()
	return freeze != nil || undone != nil
}

func (k *key) name() string { return string(k.group.Key) }

func (k *key) setRule(r *rule) {
	k.rule = r
	k.state.SetPolicy(r.policy)
}

func (k *key) newArms() *arms {
	policy := k.state.Run.Policy
	g, salt := k.group, k.salt // the salt of this revision
	return newArms(hashFor(salt, string(g.Key)), policy.FailIf.NACKs, func() { k.c.inbox.touch(g) })
}

// pendingChanged is called after pending changes have become others.
func (k *key) pendingChanged(now time.Time) {
	k.group.ReleaseParked()
	pending := k.group.HasPending()
	if !pending {
		k.pendingSince = time.Time{}
	} else if k.pendingSince.IsZero() {
		k.pendingSince = now
	}
	switch {
	case k.role != Deciding:
		k.acknowledges(k.group.CutOverlay()) // another node has the canaries
	case k.isKnown():
		k.group.Promote(k.group.CutOverlay(), cache.CausePromoted)
	case pending:
		if !k.isDecided() {
			k.carry(k.state.Changed(now), now)
		}
		if k.state.Newer || k.state.Phase == rollout.Held && k.state.Need != rollout.Quiet {
			k.acknowledges(k.group.CutOverlay()) // it waits for the end of the one before, or is refused
		}
	case k.group.HasAnswered() && !k.state.IsSought(&rollout.View{Answered: true}, now):
		k.withdrawn(now)
	}
}

// withdrawn is called when the control plane is back at what all clients have.
func (k *key) withdrawn(now time.Time) {
	was := k.state.IsUnderWay()
	effect := k.state.Withdrawn(now)
	if was {
		k.decided(decidedWithdrawn, now)
		k.changed() // the next owner need not look for it
		k.ends(EndedWithdrawn)
	}
	k.carry(effect, now)
}

// isDecided reports whether what is pending is the revision on its way, or one that is refused: nothing has
// changed then, and a bake goes on.
func (k *key) isDecided() bool {
	return k.state.Need != rollout.Quiet && k.isSame()
}

// isSame reports whether what is pending is the revision on its way, or a refused one.
func (k *key) isSame() bool {
	if k.state.IsUnderWay() {
		return digestOf(k.group.CutOverlay()) == k.state.Run.Revision
	}
	return k.state.Phase == rollout.Held && k.state.IsRefused(digestOf(k.group.CutOverlay()))
}

// evaluate does what is next until the key waits for something.
func (k *key) evaluate(now time.Time) {
	for range maxActs {
		if k.role != Deciding {
			k.due = time.Time{} // another node decides, or the record is read first
			return
		}
		if k.isBack() {
			k.withdrawn(now)
		}
		v := k.view(now)
		d := k.state.Next(&v, now)
		if k.next != nothing && d.Act != rollout.Fail {
			k.due = now.Add(look) // the records are written first; a failure takes the revision back before
			return
		}
		if d.Act == rollout.Wait {
			k.waits(d, now)
			return
		}
		if d.Act != rollout.MakeCut {
			k.act(d.Act, &v, now)
		} else if !k.cut(now) {
			k.why, k.due = rollout.ForQuiet, now.Add(look)
			return
		}
	}
}

// waits records why nothing is done, and when to look again.
func (k *key) waits(d rollout.Decision, now time.Time) {
	if d.Why != k.why {
		k.whySince = now
	}
	k.why, k.due = d.Why, d.At
	if d.Why == rollout.ForApproval {
		k.waitsForApproval(now)
	}
	switch d.Why {
	case rollout.ByBrakes, rollout.ForApproval, rollout.ForBudget, rollout.ForBreaker, rollout.ForClients:
		k.acknowledgesOnce()
	}
	switch d.Why {
	case rollout.ForBake, rollout.ForData, rollout.ForClients, rollout.ForBudget, rollout.ForBreaker:
		if at := now.Add(look); k.due.IsZero() || at.Before(k.due) {
			k.due = at
		}
	}
	if k.state.IsJudged() && k.state.Brake != rollout.Open || k.state.IsUnderWay() && !k.group.HasPending() {
		k.due = now.Add(look) // a verdict may fail, or the control plane may be back at what all clients have
	}
}

// isBack reports whether the control plane has taken back the revision on its way. Its answers, or its silence,
// may show that later than what it has sent. A cut finds that out by itself.
func (k *key) isBack() bool {
	return k.state.IsUnderWay() && k.state.Need != rollout.Quiet && !k.group.HasPending() && k.group.HasAnswered()
}

// view is what is known besides the state.
func (k *key) view(now time.Time) rollout.View {
	v := rollout.View{Answered: k.group.HasAnswered()}
	v.Same = k.state.IsSought(&v, now) && k.isSame()
	if k.state.IsJudged() && k.arms != nil && k.state.Run.Written > 0 {
		k.count(now)
		v.Present, v.Verdict = k.counts.Canary.Present, k.verdict
		if k.awaitsReports(now) {
			v.Present = max(1, v.Present)
			if v.Verdict.Outcome == rollout.Passes {
				v.Verdict.Outcome = rollout.NotEnough
			}
		} else if k.haveScoutsAnswered() {
			k.acknowledgesOnce()
		}
	}
	switch k.state.Need {
	case rollout.Tokens, rollout.Write:
		k.people = k.peopleOf()
	case rollout.Bake:
		ends := k.state.IsUnderWay() && k.counts.BakeOver && v.Verdict.Outcome == rollout.Passes
		if k.candidate != nil && (v.Present == 0 || ends) {
			k.people = k.peopleOf()
			v.Affected = len(k.people.affected)
		}
		if ends && k.awaitsPeople(now) {
			v.Verdict.Outcome = rollout.NotEnough
		}
	}
	v.Eligible, v.Quarantined = len(k.people.eligible), k.people.quarantined
	if v.Eligible > 0 && k.state.Need == rollout.Tokens && k.state.NeedsTokens() && k.state.Brake == rollout.Open {
		v.Grant, k.granted = k.take(now)
	}
	return v
}

// take asks the budget for the clients of the step.
func (k *key) take(now time.Time) (rollout.Grant, int) {
	if k.c.cfg.Tier != nil {
		return k.ask(budgetOp{what: takes, count: k.wanted(), starts: k.state.Phase == rollout.Scouting, cut: k.cutAt})
	}
	limits := k.c.cfg.Limits()
	return k.c.budget.Take(&limits, k.name(), k.wanted(), k.state.Phase == rollout.Scouting, k.c.cfg.Total(), k.cutAt, now)
}

// wanted is how many canaries the step has.
func (k *key) wanted() int {
	if k.state.Phase == rollout.Scouting {
		return max(1, min(k.state.Run.Policy.Scouts.Most, len(k.people.eligible)))
	}
	return k.state.Run.Share().Of(len(k.people.affected))
}

// count judges the revision by how its canaries stand.
func (k *key) count(now time.Time) {
	policy := k.state.Run.Policy
	stands := standings(k.c.cfg.Clients.Canaries(k.group), k.arms.hash, now)
	if k.candidate != nil {
		setUnaffected(stands, func() map[rollout.Hash]bool { return k.affectedHere(k.candidate, k.arms.hash) })
	}
	k.counts = k.arms.counts(append(stands, k.standingsElsewhere()...), policy.FailIf.Unanswered.Within)
	k.addLoads(&k.counts)
	if k.counts.Final {
		run := &k.state.Run
		k.counts.Control = run.Baseline.Scaled(run.BaselineOver, policy.Final)
	}
	k.counts.BakeOver = !now.Before(k.state.Run.BakeEnds)
	k.counts.Checks = k.answers(now)
	k.verdict = rollout.Judge(policy, &k.counts)
	before := len(k.state.Lost.Hashes)
	for _, h := range k.arms.quarantined().Hashes {
		k.state.LostCanary(h)
	}
	if len(k.state.Lost.Hashes) > before {
		k.changed() // a restart gives none of them the revision again
		k.publishes()
	}
}

// act does one thing.
func (k *key) act(a rollout.Act, v *rollout.View, now time.Time) {
	switch a {
	case rollout.PassApproval:
		k.state.PassApproval(now)
	case rollout.PassTokens:
		k.state.Granted(now)
	case rollout.ChooseScouts:
		canaries, control := k.people.chooseScouts(k.limit(), &k.state.Run.Canaries)
		k.chosen(canaries, control, now)
	case rollout.ChooseCanaries:
		canaries, control := k.people.choose(k.limit(), &k.state.Run.Canaries, &k.state.Lost, false)
		k.chosen(canaries, control, now)
	case rollout.KeepCanaries:
		k.chosen(k.state.Run.Canaries, k.state.Run.Control, now)
	case rollout.Refill:
		most := max(1, len(k.state.Run.Canaries.Hashes))
		canaries, control := k.people.choose(most, &rollout.Roster{}, &k.state.Lost, true)
		if k.state.Refilled(canaries, control, now) {
			k.decided(decidedRefilled, now)
			k.widens(theStep)
		}
	case rollout.PromoteAll:
		control, over := k.counts.Control, now.Sub(k.state.Run.Stepped)
		if effect, ok := k.state.Promoted(control, over, now); ok {
			k.decided(decidedPromoted, now)
			k.carry(effect, now)
		}
	case rollout.Repeat:
		if k.state.Outgrown(now) {
			k.decided(decidedOutgrown, now)
			k.changed()
		}
	case rollout.Pass:
		first := k.state.IsFirstBake()
		effect := k.state.Passed(now)
		switch {
		case first && k.state.Run.Repeats > 0:
			k.givesBack() // a revision shows only once that its change is good
		case first:
			k.budgetChanges(budgetOp{what: passes, cut: k.cutAt}, now)
		}
		k.decided(decidedPassed, now)
		k.c.counts.judges(&v.Verdict)
		if effect&rollout.Prove != 0 {
			k.ends(EndedGood)
		}
		k.carry(effect, now)
	case rollout.Fail:
		k.verdict = v.Verdict
		k.arms.brake()
		complain := k.complaint(&v.Verdict)
		effect := k.state.Failed(v.Verdict, now)
		k.decided(decidedFailed, now)
		k.c.counts.judges(&v.Verdict)
		k.ends(EndedFailed)
		k.carry(effect, now)
		complain()
	}
}

// limit is how many canaries the step may have.
func (k *key) limit() int {
	if k.state.NeedsTokens() {
		return min(k.wanted(), k.granted)
	}
	return k.wanted()
}

// chosen records the canaries of a step.
func (k *key) chosen(canaries, control rollout.Roster, now time.Time) {
	effect, ok := k.state.Chosen(canaries, control, len(k.people.affected), now)
	if !ok {
		return
	}
	k.decided(decidedStep, now)
	k.widens(theStep)
	k.carry(effect, now)
}

// widens makes clients see more once the records are written.
func (k *key) widens(to reveal) {
	k.next = to
	k.changed()
}

// changed says that the record is to be written.
func (k *key) changed() {
	k.c.unsaved = true
	k.edits++
}

// reveal lets clients see what was decided.
func (k *key) reveal(now time.Time) {
	is, shown := k.next, k.unshown
	k.next, k.unshown = nothing, nil
	k.publishes()
	switch {
	case is == theStep && k.candidate != nil && k.state.IsUnderWay():
		k.stepDoc = k.doc
		k.arms.step(k.state.Run.Written, k.state.Run.Canaries, k.state.Run.Control, k.state.Lost)
		k.c.cfg.Clients.Show(k.group, k.candidate, k.arms.of, k.arms.notify)
		k.shows(shown)
	case is == thePromotion, is == byOrder:
		k.promote(now)
		k.shows(shown)
	}
}

// cut makes a revision of all that is pending. It returns false if that is not known yet, as after a
// restart.
func (k *key) cut(now time.Time) bool {
	o := k.group.CutOverlay()
	if o == nil && !k.group.HasAnswered() {
		return false
	}
	if o == nil {
		k.withdrawn(now)
		return true
	}
	d := digestOf(o)
	is, effect, ok := k.state.Cut(d, now)
	if !ok {
		return false
	}
	if is != rollout.CutSame {
		k.ends(EndedSuperseded)
	}
	k.carry(effect, now)
	switch {
	case is == rollout.CutRefused:
		k.acknowledges(o)
		k.decided(decidedRefused, now)
	case is == rollout.Cut || k.candidate == nil:
		k.overlay, k.candidate = o, o.Candidate(d.String())
		k.arms = k.newArms()
		k.counts, k.verdict, k.people = rollout.Counts{}, rollout.Verdict{}, people{}
		k.cutAt, k.shared = now, nil
		k.publishes()
		if is == rollout.Cut {
			k.starts()
			k.decided(decidedStarted, now)
		}
	}
	return true
}

func digestOf(o *cache.Overlay) rollout.Digest {
	if o == nil {
		return rollout.Digest{}
	}
	var all []rollout.Change
	for _, c := range o.Changes() {
		all = append(all, rollout.Change{TypeURL: c.Type.URL, Name: c.Name, Version: c.Digest(), Absent: c.After == nil})
	}
	return rollout.DigestOf(all)
}
