package relay

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/rollouts"
)

// Labels of the metrics of rollouts.
var (
	phaseLabels = map[rollout.Phase]string{
		rollout.Settling: "settling", rollout.Scouting: "scouting", rollout.Stepping: "stepping", rollout.Proving: "proving", rollout.Held: "held",
	}
	waitingLabels = map[rollout.Reason]string{
		rollout.ForApproval: "approval", rollout.ForBudget: "budget", rollout.ForBreaker: "breaker", rollout.ForClients: "clients", rollout.ForBake: "bake", rollout.ForData: "data",
	}
	passageLabels = map[cache.Passage]string{
		cache.PassesTTL: "ttl", cache.PassesCollection: "collection", cache.PassesRequested: "requested", cache.PassesFirst: "first",
	}
	outcomeLabels = map[rollout.Outcome]string{
		rollout.Passes: "pass", rollout.Fails: "fail", rollout.NotEnough: "no_data", rollout.NotMeasured: "not_measured",
	}
)

// observeRollouts adds the metrics of rollouts, and of what is held back.
func (n *Node) observeRollouts(meter metric.Meter) error {
	hold, err := meter.Float64Histogram("xdsrelay.rollout.hold.duration", metric.WithUnit("s"), metric.WithDescription("Time from the first rejection of a revision until the node withdrew it from its canaries."))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	n.holdTime = hold
	c := &counted{meter: meter}
	started := c.whole("xdsrelay.rollout.started", "Rollouts that started.")
	skipped := c.whole("xdsrelay.rollout.skipped_checks", "Orders of operators to promote a revision without checks.")
	passed := c.whole("xdsrelay.rollout.passed", "Changes of resources that clients got at once although a rollout policy or an order holds back the type. ttl: the resource has or had a TTL. collection: it has aliases, or a client subscribes to its collection. requested: a client requested the name, and no client had the resource. first: the first configuration of a key. Types that always pass are not counted.")
	ended := c.whole("xdsrelay.rollout.ended", "Rollouts that ended. good: the final bake passed. skipped: promoted without checks. superseded: a newer revision started. withdrawn: the control plane returned to the stable revision. dropped: the key lost its policy or its clients.")
	verdicts := c.whole("xdsrelay.rollout.verdicts", "Findings of each signal when a bake passed or a rollout failed.")
	asked := c.whole("xdsrelay.rollout.check_answers", "Answers of other systems to the checks of rollouts. unreachable: no answer, or one that cannot be read. empty: no value. wait: the system wants more time.")
	observedEnded := c.whole("xdsrelay.rollout.observed_ended", "Rollouts of policies with the mode observe that would have ended, by outcome. They changed nothing for clients.")
	observedVerdicts := c.whole("xdsrelay.rollout.observed_verdicts", "Findings of each signal, of policies with the mode observe, when a bake would have passed or a rollout failed.")
	g := &gauges{meter: meter, all: c.all, errs: c.errs}
	active := g.whole("xdsrelay.rollout.active", "Keys with a rollout policy and a revision that is not good yet. held: a revision failed, and clients keep the stable one.")
	waiting := g.whole("xdsrelay.rollout.waiting_keys", "Keys whose rollout waits, by reason.")
	exposed := g.whole("xdsrelay.rollout.exposed_clients", "Clients that are canaries of a revision.")
	overdue := g.whole("xdsrelay.rollout.overdue_keys", "Keys whose rollout takes longer than rollout.policies[].longest.")
	suspended := g.whole("xdsrelay.rollout.suspended_keys", "Keys whose rollout cannot continue: a node of the tier does not support rollouts, or the records of rollouts cannot be read or written.")
	waitingSince := g.seconds("xdsrelay.rollout.oldest_wait_timestamp", "Unix time since which the rollout that has waited longest for a reason has made no progress; absent while none waits for it.")
	breaker := g.whole("xdsrelay.rollout.breaker_open", "1 while no rollout starts because too many failed (rollout.breaker), otherwise 0.")
	freezes := g.whole("xdsrelay.rollout.freezes", "Orders of operators in force that freeze a key or all keys, or hold a key at an earlier revision.")
	pending := g.whole("xdsrelay.rollout.pending_resources", "Resources whose change is held back from clients by a rollout policy or an order.")
	oldest := g.seconds("xdsrelay.rollout.oldest_pending_timestamp", "Unix time since which changes of the key that has waited longest are held back by a rollout policy; absent while nothing is.")
	size, err := meter.Int64ObservableGauge("xdsrelay.rollout.pending_size", metric.WithUnit("By"), metric.WithDescription("Approximate size of what is held back from clients by rollout policies and orders."))
	g.all, g.errs = append(g.all, size), append(g.errs, err)
	return g.read(func(o metric.Observer) {
		control := n.control.Load()
		if control == nil {
			return
		}
		s := control.Stats()
		o.ObserveInt64(started, int64(s.Started))
		o.ObserveInt64(skipped, int64(s.Skipped))
		for e, count := range s.Ended {
			o.ObserveInt64(ended, int64(count), by("outcome", e.String()))
		}
		for e, count := range s.ObservedEnded {
			o.ObserveInt64(observedEnded, int64(count), by("outcome", e.String()))
		}
		for signal := rollout.AnswerSignal; signal <= rollout.CheckSignal; signal++ {
			for outcome, label := range outcomeLabels {
				judged := rollouts.Judgment{Signal: signal, Outcome: outcome}
				o.ObserveInt64(verdicts, int64(s.Judged[judged]), by("signal", signal.String()), by("outcome", label))
				o.ObserveInt64(observedVerdicts, int64(s.ObservedJudged[judged]), by("signal", signal.String()), by("outcome", label))
			}
		}
		for _, system := range rollouts.Systems {
			for _, answer := range rollouts.Answers {
				o.ObserveInt64(asked, int64(s.Asked[rollouts.Answered{System: system, Answer: answer}]), by("system", system), by("answer", answer))
			}
		}
		for phase, label := range phaseLabels {
			o.ObserveInt64(active, int64(s.Keys[phase]), by("state", label))
		}
		for reason, label := range waitingLabels {
			o.ObserveInt64(waiting, int64(s.Waiting[reason]), by("reason", label))
		}
		for reason, since := range s.WaitingSince {
			if label := waitingLabels[reason]; label != "" {
				o.ObserveFloat64(waitingSince, timestamp(since), by("reason", label))
			}
		}
		for passage, label := range passageLabels {
			o.ObserveInt64(passed, int64(n.cache.Passed(passage)), by("reason", label))
		}
		o.ObserveInt64(suspended, int64(s.Suspended))
		o.ObserveInt64(exposed, int64(s.Exposed))
		o.ObserveInt64(overdue, int64(s.Overdue))
		o.ObserveInt64(breaker, flag(s.BreakerOpen))
		if !s.Oldest.IsZero() {
			o.ObserveFloat64(oldest, timestamp(s.Oldest))
		}
		orders := n.cache.Orders()
		count := len(orders.Keys) + len(orders.Undone)
		if orders.All != nil {
			count++
		}
		o.ObserveInt64(freezes, int64(count))
		var resources, bytes int64
		for _, group := range n.cache.Groups() {
			if state, _, _ := group.Gate(); state == gate.Open {
				continue
			}
			bytes += group.PendingBytes()
			for _, p := range group.Pending() {
				resources += int64(p.Added + p.Changed + p.Removed)
			}
		}
		o.ObserveInt64(pending, resources)
		o.ObserveInt64(size, bytes)
	})
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// counted makes counters that are read when metrics are.
type counted struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

func (c *counted) whole(name, description string) metric.Int64ObservableCounter {
	made, err := c.meter.Int64ObservableCounter(name, metric.WithDescription(description))
	c.all, c.errs = append(c.all, made), append(c.errs, err)
	return made
}

// measureHold records how long canaries had a revision after the first of them rejected it.
func (n *Node) measureHold(d *rollouts.Decision) {
	if n.holdTime != nil && len(d.Rejections) > 0 {
		n.holdTime.Record(context.Background(), max(0, d.At.Sub(d.Rejections[0].At).Seconds()))
	}
}
