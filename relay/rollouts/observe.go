package rollouts

import (
	"slices"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// With the mode observe, all changes of a key pass at once. An observation goes through the states of the
// rollout that would have been, chooses the same canaries, and judges what these do. It changes nothing
// that clients see, takes no tokens of the budget, counts for no breaker, and ends with the process. In a
// tier, each node observes its own clients.

// observation is the rollout of a key that is only observed. Controller.mu guards it.
type observation struct {
	c     *Controller
	group *cache.Group
	rule  *rule

	state     *rollout.Key
	salt      string // stays: what clients did before a revision is known by their hashes
	sightings *sightings
	overlay   *cache.Overlay // the revision, until it is good; nil: none
	changedAt time.Time      // when what is about to be cut was sent first
	arms      *arms          // of the step
	people    people
	counts    rollout.Counts
	verdict   rollout.Verdict
	why       rollout.Reason
	due       time.Time
	history   []Decision
	running   bool // a rollout that has started has not ended
}

// observing are the observations of a controller. Controller.mu guards it.
type observing struct {
	keys   map[*cache.Group]*observation
	ended  [endings]uint64
	judged map[Judgment]uint64
}

// observeSlack is how much earlier than a change a response may have been timed that has it.
const observeSlack = 10 * time.Millisecond

// changeAt says that an observed key has changed at a time.
func (i *inbox) changeAt(g *cache.Group, at time.Time) {
	i.mu.Lock()
	if i.observed == nil {
		i.observed = make(map[*cache.Group]time.Time)
	}
	if was, has := i.observed[g]; !has || at.Before(was) {
		i.observed[g] = at
	}
	i.mu.Unlock()
	i.signal()
}

func (i *inbox) takeObserved() (changed map[*cache.Group]time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	changed, i.observed = i.observed, nil
	return changed
}

// observeLocked begins to observe a key.
func (c *Controller) observeLocked(g *cache.Group, r *rule) {
	now := time.Now()
	o := &observation{c: c, group: g, state: rollout.New(r.policy), salt: newSalt(), changedAt: now}
	o.sightings = newSightings(hashFor(o.salt, string(g.Key)), now, func() { c.inbox.touch(g) })
	if c.observing.keys == nil {
		c.observing.keys = make(map[*cache.Group]*observation)
	}
	c.observing.keys[g] = o
	c.cfg.Clients.Observe(g, "", g.NotedTables(), now, o.sightings.notify)
	o.setRule(r)
}

// setRule makes a policy observe the revisions from the next one on.
func (o *observation) setRule(r *rule) {
	o.rule = r
	o.state.SetPolicy(r.policy)
	o.group.Observe(&cache.Observer{Types: r.types, Changed: o.c.inbox.changeAt})
}

// unobserveLocked ends the observation of a key.
func (c *Controller) unobserveLocked(o *observation) {
	o.ends(EndedDropped)
	o.group.Observe(nil)
	c.cfg.Clients.Observe(o.group, "", nil, time.Time{}, nil)
	delete(c.observing.keys, o.group)
	c.observed.Delete(o.group)
}

// observationNamed returns the observation of a key; nil without one.
func (c *Controller) observationNamed(name string) *observation {
	g := c.cfg.Group(aggregation.Key(name))
	if g == nil {
		return nil
	}
	return c.observing.keys[g]
}

// observe does what is to be done now for the keys that are observed. It returns when it has to be called
// again at the latest; zero for not before something happens.
func (c *Controller) observe(touched map[*cache.Group]bool, now time.Time) (next time.Time) {
	changed := c.inbox.takeObserved()
	for g, o := range c.observing.keys {
		at, is := changed[g]
		if is {
			o.changes(at, now)
		}
		if is || touched[g] || !o.due.IsZero() && !now.Before(o.due) {
			o.evaluate(now)
		}
		if !o.due.IsZero() && (next.IsZero() || o.due.Before(next)) {
			next = o.due
		}
	}
	return next
}

// sweepObserved ends the observation of keys that have ended.
func (c *Controller) sweepObserved() {
	for g, o := range c.observing.keys {
		if c.cfg.Group(g.Key) != g {
			c.unobserveLocked(o)
		}
	}
}

func (o *observation) name() string { return string(o.group.Key) }

// changes is called after what clients see has changed, at a time before any client was sent it.
func (o *observation) changes(at, now time.Time) {
	overlay := o.group.CutNoted()
	d := digestOf(overlay)
	switch {
	case overlay == nil && o.state.Phase != rollout.Proving:
		o.withdrawn(now)
		return
	case o.state.Need != rollout.Quiet && (o.state.IsJudged() && d == o.state.Run.Revision || o.state.Phase == rollout.Held && o.state.IsRefused(d)):
		return // it is known
	case o.state.Need != rollout.Quiet && !o.state.Newer:
		o.changedAt = at
	}
	o.state.Changed(now)
}

// withdrawn is called when clients have again what they had before.
func (o *observation) withdrawn(now time.Time) {
	was := o.state.IsUnderWay()
	o.state.Withdrawn(now)
	if was {
		o.decided(decidedWithdrawn, now)
		o.ends(EndedWithdrawn)
	}
	o.overlay = nil
}

// evaluate does what is next until the observation waits for something.
func (o *observation) evaluate(now time.Time) {
	for range maxActs {
		v := o.view(now)
		d := o.state.Next(&v, now)
		if d.Act == rollout.Wait {
			o.why, o.due = d.Why, d.At
			if at := now.Add(look); o.state.IsJudged() && (o.due.IsZero() || at.Before(o.due)) {
				o.due = at
			}
			return
		}
		o.act(d.Act, &v, now)
	}
}

// view is what is known besides the state.
func (o *observation) view(now time.Time) rollout.View {
	v := rollout.View{Answered: o.group.HasAnswered()}
	if o.state.IsJudged() && o.arms != nil && o.state.Run.Written > 0 {
		o.count(now)
		v.Present, v.Verdict = o.counts.Canary.Present, o.verdict
	}
	switch need := o.state.Need; {
	case need == rollout.Tokens, need == rollout.Write, o.state.IsUnderWay() && need == rollout.Bake && v.Present == 0:
		o.people = o.peopleOf()
	}
	v.Eligible, v.Quarantined = len(o.people.eligible), o.people.quarantined
	return v
}

// peopleOf returns the clients that see something of the revision, or saw what it replaces.
func (o *observation) peopleOf() (p people) {
	if o.overlay == nil {
		return p
	}
	for _, one := range personsOf(o.c.cfg.Clients.Concerned(o.group, o.overlay), o.sightings.hash, o.rule.traits) {
		p.add(one, &o.state.Lost)
	}
	p.sort()
	return p
}

// count judges the revision by what its canaries have done.
func (o *observation) count(now time.Time) {
	policy := o.state.Run.Policy
	all := standings(o.c.cfg.Clients.Canaries(o.group), o.sightings.hash, now)
	for _, one := range all {
		if one.Exposure == fanout.Accepted && o.arms.isCanary(one.Hash) {
			o.arms.accepts(one.Hash)
		}
	}
	all = slices.DeleteFunc(all, func(s standing) bool { return !o.arms.isObserved(s.Hash) })
	setUnaffected(all, func() map[rollout.Hash]bool { return o.people.affected })
	o.counts = o.arms.counts(all, policy.FailIf.Unanswered.Within)
	o.counts.Control = o.sightings.before(len(o.people.affected), now)
	o.counts.BakeOver = !now.Before(o.state.Run.BakeEnds)
	o.verdict = judgeObserved(policy, &o.counts)
	for _, h := range o.arms.quarantined().Hashes {
		o.state.LostCanary(h)
	}
}

// judgeObserved returns the verdict on a step without the checks. Other systems are not asked: all clients have
// the revision, so an answer would not be about canaries.
func judgeObserved(p *rollout.Policy, c *rollout.Counts) rollout.Verdict {
	own := *p
	own.Checks = nil
	v := rollout.Judge(&own, c)
	for i := range p.Checks {
		v.Findings = append(v.Findings, rollout.Finding{Signal: rollout.CheckSignal, Outcome: rollout.NotMeasured, Name: p.Checks[i].Name, Text: "not asked, since the policy only observes"})
	}
	return v
}

// act does one thing.
func (o *observation) act(a rollout.Act, v *rollout.View, now time.Time) {
	run := &o.state.Run
	switch a {
	case rollout.MakeCut:
		o.cut(now)
	case rollout.PassApproval:
		o.state.PassApproval(now)
	case rollout.PassTokens:
		o.state.Granted(now)
	case rollout.ChooseScouts:
		canaries, _ := o.people.chooseScouts(max(1, run.Policy.Scouts.Most), &rollout.Roster{})
		o.chosen(canaries, now)
	case rollout.ChooseCanaries:
		canaries, _ := o.people.choose(run.Share().Of(len(o.people.affected)), &run.Canaries, &o.state.Lost, false)
		o.chosen(canaries, now)
	case rollout.KeepCanaries:
		o.chosen(run.Canaries, now)
	case rollout.Refill:
		had := run.Canaries
		canaries, _ := o.people.choose(max(1, len(run.Canaries.Hashes)), &rollout.Roster{}, &o.state.Lost, true)
		if o.state.Refilled(canaries, rollout.Roster{}, now) {
			o.decided(decidedRefilled, now)
			o.arms.step(run.Written, canaries, rollout.Roster{}, rollout.Roster{}) // what was counted stays
			o.sightings.judge(o.arms, had)
		}
	case rollout.PromoteAll:
		if _, ok := o.state.Promoted(rollout.Arm{}, 0, now); ok {
			o.decided(decidedPromoted, now)
			o.judges(true)
		}
	case rollout.Pass:
		effect := o.state.Passed(now)
		o.decided(decidedPassed, now)
		o.c.observing.counts(&v.Verdict)
		if effect&rollout.Prove != 0 {
			o.ends(EndedGood)
			o.group.Settle(o.overlay)
			o.overlay, o.arms = nil, nil
			o.sightings.judge(nil, rollout.Roster{})
			o.changes(now, now) // what is newer is compared with this revision
		}
	case rollout.Fail:
		o.verdict = v.Verdict
		o.state.Failed(v.Verdict, now)
		o.decided(decidedFailed, now)
		o.c.observing.counts(&v.Verdict)
		o.ends(EndedFailed)
		o.sightings.judge(nil, rollout.Roster{})
	}
}

// chosen begins a step with its canaries.
func (o *observation) chosen(canaries rollout.Roster, now time.Time) {
	if _, ok := o.state.Chosen(canaries, rollout.Roster{}, len(o.people.affected), now); ok {
		o.decided(decidedStep, now)
		o.judges(false)
	}
}

// judges makes the canaries of the step count, or all clients.
func (o *observation) judges(all bool) {
	run := &o.state.Run
	o.arms = newArms(o.sightings.hash, 0, func() { o.c.inbox.touch(o.group) })
	if all {
		o.arms.finish()
	} else {
		o.arms.step(run.Written, run.Canaries, rollout.Roster{}, rollout.Roster{})
	}
	o.sightings.judge(o.arms, rollout.Roster{})
}

// cut makes a revision of all that has changed.
func (o *observation) cut(now time.Time) {
	overlay := o.group.CutNoted()
	if overlay == nil {
		o.withdrawn(now)
		return
	}
	d := digestOf(overlay)
	is, _, ok := o.state.Cut(d, now)
	switch {
	case !ok, is == rollout.CutSame:
		return
	case is == rollout.CutRefused:
		o.ends(EndedSuperseded)
		o.decided(decidedRefused, now)
		return
	}
	o.ends(EndedSuperseded)
	o.overlay, o.arms, o.counts, o.verdict = overlay, nil, rollout.Counts{}, rollout.Verdict{}
	since := o.changedAt.Add(-observeSlack)
	o.sightings.begin(since)
	o.c.cfg.Clients.Observe(o.group, d.String(), o.group.NotedTables(), since, o.sightings.notify)
	o.running = true
	o.people = o.peopleOf()
	o.decided(decidedStarted, now)
}

// ends counts the end of the rollout, if there is one.
func (o *observation) ends(as Ending) {
	if o.running {
		o.running = false
		o.c.observing.ended[as]++
	}
}

// counts counts what the signals of a verdict say.
func (o *observing) counts(v *rollout.Verdict) {
	if o.judged == nil {
		o.judged = make(map[Judgment]uint64)
	}
	for _, f := range v.Findings {
		o.judged[Judgment{f.Signal, f.Outcome}]++
	}
}

// decided records a decision.
func (o *observation) decided(what string, now time.Time) {
	d := Decision{
		At: now, Key: o.name(), Revision: o.state.Run.Revision.String(), What: what, State: o.state.State.String(), Observed: true,
		Canaries: len(o.state.Run.Canaries.Hashes), Affected: len(o.people.affected),
	}
	if what == decidedFailed {
		trouble := o.trouble()
		d.Why, d.Canaries, d.Trouble = o.state.Why.Reasons(), o.counts.Canary.Clients, trouble.kept()
	}
	if len(o.history) >= maxDecisions {
		o.history = append(o.history[:0:0], o.history[1:]...)
	}
	o.history = append(o.history, d)
	if o.c.cfg.Decided != nil {
		o.c.cfg.Decided(d)
	}
}

// trouble returns the trouble of the canaries with the revision.
func (o *observation) trouble() Trouble {
	return o.arms.troubles(func(typeURL, reason string) []string { return mentionedIn(o.overlay, typeURL, reason) })
}

// status is how far the rollout would be.
func (o *observation) status(now time.Time) Status {
	run, policy := &o.state.Run, o.state.Policy()
	if o.state.IsJudged() && run.Policy != nil {
		policy = run.Policy
	}
	s := Status{
		Key: o.name(), Role: "observing", Policy: policy.Name, Mode: string(policy.Mode), State: o.state.State.String(), Waits: o.why.String(),
		Stable: o.state.Stable.String(), Good: o.state.Good.String(), Canaries: len(run.Canaries.Hashes), Affected: len(o.people.affected),
		IsOverdue: o.state.IsOverdue(now), History: slices.Clone(o.history),
	}
	for _, d := range o.state.Refused {
		s.Refused = append(s.Refused, d.String())
	}
	if o.overlay != nil {
		s.Revision, s.Trouble = run.Revision.String(), o.trouble()
		for _, f := range o.verdict.Findings {
			if f.Outcome != rollout.NotMeasured || f.Signal == rollout.CheckSignal {
				s.Findings = append(s.Findings, f.String())
			}
		}
		if run.Policy != nil {
			all := o.sightings.all(standings(o.c.cfg.Clients.Canaries(o.group), o.sightings.hash, now), run.Policy.FailIf.Unanswered.Within)
			s.Observed, s.Exposed = &all, all.Clients
		}
	}
	failed := o.state.Phase == rollout.Held && run.Policy != nil
	if failed { // the step that would have failed
		policy, s.Canaries = run.Policy, o.counts.Canary.Clients
	}
	if o.state.IsJudged() || failed {
		s.Share = run.Share()
		s.steps(policy, run)
		if o.state.Need == rollout.Bake {
			s.BakeEnds = run.BakeEnds
		}
	}
	if o.state.Phase == rollout.Idle {
		s.Waits = ""
	}
	return s
}
