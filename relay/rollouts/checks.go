package rollouts

import (
	"context"
	"slices"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/rollout"
)

// The node that decides about a key asks other systems about its revision as long as canaries have it: each
// check at once when a step begins, then every so often, and once more when the bake is over. The last answer
// counts. What is said of another step, or before the bake is over, passes nothing.

const (
	// maxAsking bounds the questions of a node at a time.
	maxAsking = 8
	// maxAskedBytes bounds the ids of an arm on a node, in bytes.
	maxAskedBytes = 64 << 10
	// quiet is how long a system that does not answer is logged once.
	quiet = time.Minute
)

// asking is what a controller asks. Controller.mu guards it, but for work.
type asking struct {
	now    int // questions on their way
	counts map[Answered]uint64
	logged time.Time // a system that does not answer
	silent uint64    // those since then that were not logged

	work sync.WaitGroup
}

// Answered is how one of the [Systems] has reacted to a question: with one of the [Answers].
type Answered struct{ System, Answer string }

// The kinds of systems, and how they react.
var (
	Systems = []string{systemPrometheus, systemWebhook}
	Answers = []string{rollout.Passes.String(), rollout.Fails.String(), rollout.MoreTime.String(), rollout.Empty.String(), rollout.Unreachable.String()}
)

const (
	systemPrometheus = "prometheus"
	systemWebhook    = "webhook"
)

func answeredBy(q *rollout.Question, is *rollout.CheckResult) Answered {
	a := Answered{systemWebhook, is.Reply.String()}
	if q.Check.Prometheus != "" {
		a.System = systemPrometheus
	}
	if is.Reply == rollout.Decisive {
		a.Answer = is.Outcome.String()
	}
	return a
}

// inquiry is what is asked about a step, from the beginning of its bake on.
type inquiry struct {
	revision rollout.Digest
	began    time.Time
	checks   []inquired // in the order of the policy
}

// inquired is a check of an inquiry.
type inquired struct {
	last rollout.CheckResult
	of   time.Time          // when the question was asked that last answers
	at   time.Time          // of the last question; zero: there was none
	end  context.CancelFunc // of the question on its way; nil: there is none
}

// inquire returns the inquiry of the step. That of an earlier one ends.
func (k *key) inquire() *inquiry {
	run := &k.state.Run
	if i := k.inquiry; i != nil && i.revision == run.Revision && i.began.Equal(run.Stepped) {
		return i
	}
	k.endInquiry()
	k.inquiry = &inquiry{run.Revision, run.Stepped, make([]inquired, len(run.Policy.Checks))}
	return k.inquiry
}

// endInquiry ends what is asked. Answers on their way count no more.
func (k *key) endInquiry() {
	if k.inquiry == nil {
		return
	}
	for i := range k.inquiry.checks {
		if end := k.inquiry.checks[i].end; end != nil {
			end()
		}
	}
	k.inquiry = nil
}

// answers are the last answers to the checks of a step.
func (k *key) answers(now time.Time) []rollout.CheckResult {
	run := &k.state.Run
	if len(run.Policy.Checks) == 0 {
		return nil
	}
	i := k.inquire()
	all := make([]rollout.CheckResult, len(i.checks))
	for n := range i.checks {
		all[n] = i.checks[n].answer(&run.Policy.Checks[n], run.BakeEnds, now)
	}
	return all
}

// answer is what the last answer counts for.
func (q *inquired) answer(check *rollout.Check, bakeEnds, now time.Time) rollout.CheckResult {
	is := q.last
	is.Name = check.Name
	switch {
	case q.last.Name == "": // there is none yet
		is.Text, is.Reply = "no answer yet", rollout.Asking
	case !now.Before(bakeEnds) && q.of.Before(bakeEnds) && is.Outcome != rollout.Fails:
		is.Outcome, is.Reply, is.Text = rollout.NotEnough, rollout.Asking, "asked again since the bake is over, before: "+is.Text
	case is.Outcome == rollout.Passes && now.Sub(q.of) > 2*check.Every+check.Timeout:
		is.Outcome, is.Reply, is.Text = rollout.NotEnough, rollout.Asking, "the last answer is too old: "+is.Text
	}
	return is
}

// due is when a check has to be asked; false if a question is on its way.
func (q *inquired) due(check *rollout.Check, bakeEnds time.Time) (at time.Time, ok bool) {
	switch {
	case q.end != nil:
		return at, false
	case q.at.IsZero():
		return at, true
	}
	at = q.at.Add(check.Every)
	if q.at.Before(bakeEnds) && bakeEnds.Before(at) {
		at = bakeEnds
	}
	return at, true
}

// asks reports whether clients have a revision about which this node decides.
func (k *key) asks() bool {
	return k.role == Deciding && k.next == nothing && k.arms != nil && k.state.IsJudged() && k.state.Run.Written > 0
}

// ask sends the questions that are due. It returns when it has to be called again at the latest; zero for not
// before something happens.
func (c *Controller) ask(ctx context.Context, now time.Time) (next time.Time) {
	if c.cfg.Ask == nil {
		return next
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.keys {
		if !k.asks() {
			k.endInquiry()
			continue
		}
		run, final := &k.state.Run, k.state.Phase == rollout.Proving
		if len(run.Policy.Checks) == 0 {
			continue
		}
		for n, i := 0, k.inquire(); n < len(i.checks); n++ {
			check := &run.Policy.Checks[n]
			at, ok := i.checks[n].due(check, run.BakeEnds)
			switch {
			case !ok || !check.Applies(final) || c.asking.now >= maxAsking: // the end of a question is a reason to look again
			case now.Before(at):
				if next.IsZero() || at.Before(next) {
					next = at
				}
			default:
				c.askNow(ctx, k, n, now)
			}
		}
	}
	return next
}

// askNow sends a question.
func (c *Controller) askNow(ctx context.Context, k *key, n int, now time.Time) {
	i, q := k.inquiry, k.question(&k.state.Run.Policy.Checks[n])
	ctx, end := context.WithCancel(ctx)
	i.checks[n].at, i.checks[n].end = now, end
	c.asking.now++
	c.asking.work.Go(func() {
		is := c.cfg.Ask(ctx, q)
		c.mu.Lock()
		defer c.mu.Unlock()
		ended := ctx.Err() != nil
		end()
		c.asking.now--
		c.inbox.touch(k.group) // also for the other keys: there is room for a question
		if k.inquiry != i || ended {
			return
		}
		i.checks[n].last, i.checks[n].of, i.checks[n].end = is, now, nil
		c.answered(q, &is, time.Now())
	})
}

// answered counts an answer, and logs it if there is none.
func (c *Controller) answered(q *rollout.Question, is *rollout.CheckResult, now time.Time) {
	if c.asking.counts == nil {
		c.asking.counts = make(map[Answered]uint64)
	}
	c.asking.counts[answeredBy(q, is)]++
	if is.Reply != rollout.Unreachable {
		return
	}
	if !c.asking.logged.IsZero() && now.Sub(c.asking.logged) < quiet {
		c.asking.silent++
		return
	}
	c.cfg.Logger.Warn("a check of a rollout has no answer: the step waits", "key", q.Key, "revision", q.Revision, "policy", q.Policy, "check", q.Check.Name, "error", is.Text, "omitted", c.asking.silent)
	c.asking.logged, c.asking.silent = now, 0
}

// question is what a check asks about the step.
func (k *key) question(check *rollout.Check) *rollout.Question {
	run := &k.state.Run
	q := &rollout.Question{
		Check: check, Policy: run.Policy.Name, Key: k.name(), Revision: run.Revision.String(), Step: run.Step, Steps: len(run.Policy.Steps) + 1, Share: run.Share(),
		Final: k.state.Phase == rollout.Proving,
	}
	if k.state.IsUnderWay() { // the next step may wait for an approval
		q.Step, q.Share = run.Written-1, 0
		if q.Step > 0 {
			q.Share = run.Policy.Steps[q.Step-1].Share
		}
	}
	if run.Small {
		q.Steps = 1
	}
	ids := idsOf(k.c.cfg.Clients.Canaries(k.group))
	for _, node := range k.nodesElsewhere() {
		for arm, all := range k.elsewhere[node].ids {
			ids[arm] = append(ids[arm], all...)
		}
	}
	q.Canaries = rollout.Asked{Clients: k.counts.Canary.Present, IDs: firstOf(ids[0])}
	q.Control = rollout.Asked{Clients: k.counts.Control.Present, IDs: firstOf(ids[1])}
	return q
}

// nodesElsewhere are the other nodes that have reported of the step, in order.
func (k *key) nodesElsewhere() (all []string) {
	for node, e := range k.elsewhere {
		if e.round == k.arms.rounds() {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	return all
}

// idsOf are the node ids of some clients of both arms.
func idsOf(all []fanout.CanaryStatus) (ids [2][]string) {
	for _, one := range all {
		arm := 0
		if one.Arm == fanout.ControlArm {
			arm = 1
		}
		if one.ID != "" {
			ids[arm] = append(ids[arm], one.ID)
		}
	}
	return [2][]string{firstOf(ids[0]), firstOf(ids[1])}
}

// firstOf are the first ids, each once. Which these are does not depend on the order.
func firstOf(ids []string) []string {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	bytes := 0
	for i, id := range ids {
		if bytes += len(id); i >= rollout.MaxAsked || bytes > maxAskedBytes {
			return ids[:i]
		}
	}
	return ids
}
