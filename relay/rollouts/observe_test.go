package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// observed is a bubble whose policy only observes.
func observed(t *testing.T, f func(s *stage)) {
	t.Helper()
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Observe
		f(s)
	})
}

// TestObserveGood: a policy that observes makes the decisions of an automatic one, while all clients have the
// revision at once, it may become last known good, and the budget is not touched.
func TestObserveGood(t *testing.T) {
	observed(t, func(s *stage) {
		s.limits.Shares = []rollout.Share{0.01}
		s.begins("shop")
		s.sends("shop", "a=2")
		s.shows("shop", "2")
		sleep(time.Second / 10)
		s.is("shop", "Settling Quiet")
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		if is.Canaries != 5 || is.Affected != 10 || is.Step != 1 || is.Mode != "observe" || is.Role != "observing" || is.Tokens != 0 || !is.Observes() {
			t.Errorf("in the step: %+v", is)
		}
		if is.Observed == nil || *is.Observed != (Observed{Clients: 10}) {
			t.Errorf("all clients: %+v", is.Observed)
		}
		if budget, governs := s.control.Budget(); !governs || budget.Used != 0 || s.control.IsUnproven(s.group("shop"), clusters) {
			t.Errorf("the view has no policy, tokens of the budget are used, or last known good waits: %+v", budget)
		}
		sleep(7 * time.Minute)
		after := s.is("shop", "Idle")
		if after.Stable != is.Revision || after.Good != is.Revision {
			t.Errorf("after the final bake: %+v", after)
		}
		s.expects("shop", "started", "step", "passed", "step", "passed", "promoted", "passed")
		for _, d := range after.History {
			if !d.Observed {
				t.Errorf("a decision that was carried out: %+v", d)
			}
		}
		stats := s.control.Stats()
		if stats.Started != 0 || len(stats.Keys) != 0 || stats.Exposed != 0 || stats.ObservedEnded[EndedGood] != 1 || stats.ObservedJudged[Judgment{rollout.NACKSignal, rollout.Passes}] != 3 || len(stats.Judged) != 0 {
			t.Errorf("%+v", stats)
		}
		if len(s.fleet.hidden) > 0 {
			t.Errorf("Hide was called with %v", s.fleet.hidden)
		}
		s.sends("shop", "a=3")
		sleep(time.Second)
		if next := s.is("shop", "Stepping Bake"); next.Revision == is.Revision {
			t.Error("the next revision is the same")
		}
	})
}

// TestObserveRejected: the would-be scouts reject a revision, so it would have been taken back and refused.
// All clients have it, and those that reject it are counted. What the control plane sends instead is the next
// revision; neither the breaker nor an order knows of it.
func TestObserveRejected(t *testing.T) {
	observed(t, func(s *stage) {
		s.limits.Failures, s.limits.Within = 1, time.Hour
		s.begins("shop")
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2", "payments=1", "pay=1")
		sleep(time.Second)
		is := s.is("shop", "Held")
		s.shows("shop", "2")
		if len(is.Refused) != 1 || is.Refused[0] != is.Revision || len(is.Rejections) != 1 || !isRejection(&is.Rejections[0]) || len(is.Findings) == 0 {
			t.Errorf("held: %+v", is)
		}
		if is.Observed == nil || is.Observed.Rejected != 5 {
			t.Errorf("all clients: %+v", is.Observed)
		}
		s.expects("shop", "started", "step", "failed")
		if d := is.History[len(is.History)-1]; d.Canaries != 2 || d.Why == "" || len(d.Rejections) != 1 {
			t.Errorf("the decision: %+v", d)
		}
		if stats := s.control.Stats(); stats.BreakerOpen || stats.ObservedEnded[EndedFailed] != 1 || stats.ObservedJudged[Judgment{rollout.NACKSignal, rollout.Fails}] != 1 {
			t.Errorf("%+v", stats)
		}
		for _, what := range []string{Approve, Pause, Resume, Abort, Retry, Promote, Undo} {
			s.order(what, ErrObserves)
		}
		s.fleet.become(accepts, everybody)
		s.sends("shop", "a=3")
		sleep(10 * time.Minute)
		if is := s.is("shop", "Idle"); is.Good == "" || is.Good != is.Stable {
			t.Errorf("%+v", is)
		}
	})
}

// TestObserveAsksNobody: an observed key asks no other system and waits for no answer. Its status lists the
// checks as not asked, and has the steps and the clients that have the revision.
func TestObserveAsksNobody(t *testing.T) {
	observed(t, func(s *stage) {
		other := &system{}
		other.says(rollout.Fails, rollout.Decisive, "not well")
		s.ask = other.ask
		s.policy.Checks = []rollout.Check{{Name: "slo", Webhook: "https://ci", Every: 20 * time.Second, Timeout: 5 * time.Second, NoData: rollout.FailWithoutData}}
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		if !slices.Contains(is.Findings, "check slo: not measured, not asked, since the policy only observes") {
			t.Errorf("the findings: %q", is.Findings)
		}
		if is.Exposed != 10 || is.Step != 1 || is.Steps != 2 || len(is.Schedule) != 3 || is.Schedule[1].Clients != 5 || is.Schedule[2].Clients != 10 {
			t.Errorf("in the step: %+v", is)
		}
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.expects("shop", "started", "step", "passed", "step", "passed", "promoted", "passed")
		if asked := other.asked(); len(asked) > 0 {
			t.Errorf("%d questions, such as %+v", len(asked), asked[0])
		}
	})
}

// TestObserveLater: a revision that only a client rejects that is no scout fails in the step that would have
// given it to this client, although the client has rejected it long before.
func TestObserveLater(t *testing.T) {
	observed(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		canaries := s.control.observationNamed("shop").state.Run.Canaries // those of the next revision, too
		hash := s.control.observationNamed("shop").sightings.hash
		s.sends("shop", "a=1")
		sleep(time.Second)
		s.is("shop", "Idle")
		s.expects("shop", "started", "step", "passed", "step", "withdrawn")
		s.fleet.become(rejects, func(c *client) bool { return !canaries.Has(hash(c.Canary)) })
		s.sends("shop", "a=3")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		sleep(2 * time.Minute)
		is := s.is("shop", "Held")
		if len(is.Rejections) != 5 || is.Observed.Rejected != 5 {
			t.Errorf("after the step to all clients: %+v", is)
		}
		s.expects("shop", "started", "step", "passed", "step", "withdrawn", "started", "step", "passed", "step", "passed", "promoted", "failed")
	})
}

// TestObserveLost: clients that end their streams with a revision are compared with those that did so before
// it, also if they do it before the revision is cut.
func TestObserveLost(t *testing.T) {
	for _, restless := range []bool{false, true} {
		observed(t, func(s *stage) {
			s.policy.FailIf.Lost = rollout.Lost{Clients: 2, TimesControl: 3}
			s.policy.Steps, s.policy.Scouts.Most = []rollout.Step{{Share: 0.9, Bake: time.Minute}}, 1
			s.begins("shop")
			s.sends("shop", "a=2")
			sleep(255 * time.Millisecond)
			s.is("shop", "Scouting Bake")
			scout, hash := s.control.observationNamed("shop").state.Run.Canaries, s.control.observationNamed("shop").sightings.hash
			s.sends("shop", "a=1")
			sleep(2 * time.Hour)
			others := slices.DeleteFunc(slices.Clone(s.fleet.clients), func(c *client) bool { return scout.Has(hash(c.Canary)) })
			restart := func() {
				for _, c := range others[:8] {
					s.fleet.disconnect(c, true)
					s.fleet.connect(c)
				}
			}
			if restless {
				restart()
			}
			sleep(time.Minute)
			s.sends("shop", "a=3")
			sleep(time.Millisecond)
			restart()
			sleep(10 * time.Second)
			is := s.status("shop")
			if is.State == "Held" == restless || is.Observed.Lost != 8 {
				t.Errorf("with the same losses before (%v): %+v", restless, is)
			}
		})
	}
}

// TestObserveUnanswered: a would-be canary that does not answer in time fails the step.
func TestObserveUnanswered(t *testing.T) {
	observed(t, func(s *stage) {
		s.begins("shop")
		s.fleet.become(ignores, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2")
		sleep(time.Minute)
		if is := s.is("shop", "Held"); is.Observed.Unanswered != 5 || len(is.Unanswered) != 1 {
			t.Errorf("%+v", is)
		}
	})
}

// TestObserveThenHold: a change of the mode takes effect while the node runs, in both directions.
func TestObserveThenHold(t *testing.T) {
	observed(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		change := func(m rollout.Mode) {
			p := *s.policy
			p.Mode = m
			s.policy = &p
			s.control.RulesChanged()
		}
		change(rollout.Automatic)
		sleep(time.Second)
		s.is("shop", "Idle")
		s.sends("shop", "a=3")
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		s.shows("shop", "2")
		if is.Mode != "automatic" || is.Observed != nil {
			t.Errorf("%+v", is)
		}
		change(rollout.Observe)
		s.shows("shop", "3")
		s.is("shop", "Idle")
		change(rollout.Off)
		if _, has := s.control.Status("shop"); has {
			t.Error("a key with the mode off has a status")
		}
		if len(s.fleet.shows) > 0 {
			t.Error("clients are still observed")
		}
	})
}

// TestObservePlan: a plan shows who would have been the canaries of what clients have.
func TestObservePlan(t *testing.T) {
	observed(t, func(s *stage) {
		s.begins("shop")
		if p, err := s.control.Plan("shop"); err != nil || p.Revision != "" || !p.Observed {
			t.Errorf("%+v, %v", p, err)
		}
		s.sends("shop", "a=2")
		sleep(time.Second)
		p, err := s.control.Plan("shop")
		if err != nil || p.Affected != 10 || len(p.Steps) != 3 || p.Steps[0].Clients != 2 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestSightings: what clients did before a revision is scaled to the time since, and forgotten after an hour.
func TestSightings(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	s := newSightings(hashFor("salt", "key"), start, func() {})
	lost := func(id string, at time.Duration) {
		s.notify(fanout.CanaryEvent{Canary: fanout.Canary{ID: id}, At: start.Add(at), Ended: true, Lost: true})
	}
	lost("a", time.Minute)
	lost("b", 59*time.Minute)
	lost("c", 2*time.Hour-time.Minute)
	lost("c", 2*time.Hour-time.Minute)
	s.notify(fanout.CanaryEvent{Canary: fanout.Canary{ID: "d"}, Load: &fanout.Load{Requests: 10, Errors: 1}})
	since := start.Add(2 * time.Hour)
	s.begin(since)
	if is := s.before(10, since.Add(30*time.Minute)); is.Lost != 1 || s.before(10, since.Add(time.Second)) != is || is.Clients != 10 || is.Requests != 10 || is.Errors != 1 {
		t.Errorf("half an hour before: %+v", is)
	}
	if is := s.before(10, since.Add(4*time.Hour)); is.Lost != 4 {
		t.Errorf("one of the hour before is 4 of 4 hours: %+v", is)
	}
	if is := s.before(0, since.Add(time.Minute)); is.Clients != 0 {
		t.Errorf("without clients: %+v", is)
	}
	early := newSightings(hashFor("salt", "key"), start, func() {})
	early.begin(start.Add(time.Second))
	if is := early.before(10, start.Add(time.Hour)); is.Clients != 0 {
		t.Errorf("a second of observation is compared: %+v", is)
	}
	for i := range 3 * maxSightings / 2 {
		s.rejected = remember(s.rejected, sighting{hash: rollout.Hash(i)})
	}
	if n := len(s.rejected); n > maxSightings || !slices.ContainsFunc(s.rejected, func(e sighting) bool { return e.hash == rollout.Hash(3*maxSightings/2-1) }) {
		t.Errorf("%d events are remembered", n)
	}
}

// TestObserveNoClients: an observation goes on when the first client connects that a revision concerns. If the
// only one was lost with it, a rollout would have failed, and the next revision is observed with it again.
func TestObserveNoClients(t *testing.T) {
	observed(t, func(s *stage) {
		only := s.fleet.clients[0]
		for _, c := range s.fleet.clients {
			s.fleet.disconnect(c, true)
		}
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Minute)
		if is := s.is("shop", "Scouting Tokens"); is.Waits != rollout.ForClients.String() {
			t.Errorf("without clients it waits for %q", is.Waits)
		}
		s.fleet.become(ignores, everybody)
		s.fleet.connect(only)
		sleep(2 * time.Second)
		s.is("shop", "Scouting Bake")
		s.fleet.disconnect(only, true)
		s.fleet.connect(only)
		sleep(2 * time.Second)
		is := s.is("shop", "Held")
		if !strings.Contains(strings.Join(is.Findings, "\n"), "all clients that could get it were lost with it: 1") {
			t.Errorf("held: %+v", is)
		}
		s.fleet.become(accepts, everybody)
		s.sends("shop", "a=3")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
	})
}

// Observe is as Watch for a revision. Without one, nothing has been sent yet.
func (f *fleet) Observe(g *cache.Group, revision string, _ []*cache.Table, _ time.Time, notify func(fanout.CanaryEvent)) {
	if notify == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.shows, string(g.Key))
		return
	}
	if revision != "" {
		f.show(&shown{g, revision, nil, notify})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shows[string(g.Key)] = &shown{g, revision, nil, notify}
	for _, c := range f.clients {
		if c.key == string(g.Key) {
			c.arm = fanout.CanaryArm
		}
	}
}

func (f *fleet) Concerned(g *cache.Group, _ *cache.Overlay) []fanout.Affected {
	return f.Affected(g, nil)
}
