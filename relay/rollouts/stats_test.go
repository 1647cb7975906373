package rollouts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/rollout"
)

// TestStats: each rollout that has started ends once, in one way; the keys count by phase.
func TestStats(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		since := time.Now()
		s.sends("shop", "a=2")
		sleep(time.Second)
		is := s.control.Stats()
		if is.Started != 1 || is.Keys[rollout.Stepping] != 1 || is.Exposed != 5 || is.Waiting[rollout.ForBake] != 1 || !is.Oldest.Equal(since) {
			t.Errorf("in a step: %+v", is)
		}
		sleep(3 * time.Hour)
		s.sends("shop", "a=3") // good before; superseded
		sleep(time.Second)
		s.sends("shop", "a=4") // aborted
		sleep(time.Second)
		s.order(Abort, nil)
		s.sends("shop", "a=5")
		sleep(time.Second)
		s.sends("shop", "a=2") // withdrawn
		sleep(time.Second)
		if is := s.control.Stats(); len(is.Keys) > 0 || !is.Oldest.IsZero() || is.Exposed > 0 {
			t.Errorf("at rest: %+v", is)
		}
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=6") // failed
		sleep(time.Second)
		s.order(Promote, nil)
		s.fleet.become(accepts, everybody)
		s.sends("shop", "a=7") // skipped
		sleep(time.Second)
		s.order(Promote, nil)
		s.sends("shop", "a=8") // undone
		sleep(2 * time.Minute)
		s.order(Undo, nil)
		s.sends("shop", "a=9") // dropped
		sleep(time.Second)
		s.policy = nil
		s.control.RulesChanged()
		is = s.control.Stats()
		started := uint64(0)
		for e := range endings {
			if is.Ended[e] != 1 {
				t.Errorf("%d have ended as %v", is.Ended[e], e)
			}
			started += is.Ended[e]
		}
		if is.Started != started || is.Skipped != 2 || len(is.Keys) > 0 {
			t.Errorf("at the end: %+v", is)
		}
		if n := is.Judged[Judgment{rollout.NACKSignal, rollout.Fails}]; n != 1 {
			t.Errorf("%d verdicts have failed by rejections: %+v", n, is.Judged)
		}
		if is.Judged[Judgment{rollout.NACKSignal, rollout.Passes}] == 0 {
			t.Errorf("no verdict has passed: %+v", is.Judged)
		}
	})
}

// TestOverdue: a rollout that takes longer than its policy expects is counted, and goes on.
func TestOverdue(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Manual
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.order(Approve, nil)
		sleep(time.Hour)
		if is := s.control.Stats(); is.Overdue != 0 || is.Waiting[rollout.ForApproval] != 1 {
			t.Errorf("after an hour: %+v", is)
		}
		sleep(2 * time.Hour)
		if is := s.control.Stats(); is.Overdue != 1 {
			t.Errorf("after three hours: %+v", is)
		}
	})
}

// TestWaitingSince: how long a rollout has waited for a reason counts from its last progress.
func TestWaitingSince(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Manual
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Hour)
		waits := func() time.Duration {
			return time.Since(s.control.Stats().WaitingSince[rollout.ForApproval]).Round(time.Minute)
		}
		if is := waits(); is != time.Hour {
			t.Errorf("after an hour: %v", is)
		}
		s.order(Approve, nil)
		sleep(30 * time.Minute)
		if is := waits(); is != 30*time.Minute {
			t.Errorf("30m after the scouts: %v", is)
		}
		s.order(Abort, nil)
		if is := s.control.Stats(); len(is.WaitingSince) > 0 && is.Waiting[rollout.ForApproval] > 0 {
			t.Errorf("after the end: %+v", is.WaitingSince)
		}
	})
}

// TestSuspended: a rollout whose records cannot be written is suspended until that works, and one of a tier
// with nodes that do not support rollouts.
func TestSuspended(t *testing.T) {
	bubble(t, func(s *stage) {
		suspended := func(what string, want int) {
			t.Helper()
			if is := s.control.Stats().Suspended; is != want {
				t.Errorf("%s: %d keys are suspended, expected %d", what, is, want)
			}
		}
		s.begins("shop")
		suspended("idle", 0)
		s.breaks(errors.New("disk full"))
		s.sends("shop", "a=2")
		sleep(time.Minute)
		suspended("records that cannot be written", 1)
		s.breaks(nil)
		sleep(2 * time.Second)
		suspended("in a step", 0)
		brake := func(do func(k *key)) {
			s.control.mu.Lock()
			defer s.control.mu.Unlock()
			do(s.control.keyNamed("shop"))
		}
		brake(func(k *key) { k.state.Stop(rollout.MixedVersions, time.Now()) })
		suspended("mixed versions", 1)
		brake(func(k *key) { k.state.Release(rollout.MixedVersions, time.Now()) })
		suspended("equal versions", 0)
	})
}

// TestErrors: load reports count for the arm of the client and for the step.
func TestErrors(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		report := func(canaries, control fanout.Load) {
			s.fleet.mu.Lock()
			defer s.fleet.mu.Unlock()
			for _, c := range s.fleet.clients {
				switch c.arm {
				case fanout.CanaryArm:
					s.fleet.notifyLocked(c, fanout.CanaryEvent{Load: &canaries})
				case fanout.ControlArm:
					s.fleet.notifyLocked(c, fanout.CanaryEvent{Load: &control})
				}
			}
		}
		report(fanout.Load{Requests: 1000, Errors: 20}, fanout.Load{Requests: 1000, Errors: 20})
		sleep(2 * time.Second)
		is := s.is("shop", "Stepping Bake")
		if !strings.Contains(strings.Join(is.Findings, "\n"), "errors: pass, 2%") {
			t.Errorf("%+v", is)
		}
		sleep(time.Minute)
		s.is("shop", "Proving Bake") // it is compared with the control group of the step
		s.fleet.mu.Lock()
		for _, c := range s.fleet.clients {
			s.fleet.notifyLocked(c, fanout.CanaryEvent{Load: &fanout.Load{Requests: 1000, Errors: 100}})
		}
		s.fleet.mu.Unlock()
		sleep(2 * time.Second)
		after := s.is("shop", "Held")
		if !strings.Contains(strings.Join(after.Findings, "\n"), "errors: fail, 10% of the requests of canaries failed and 2% of others") {
			t.Errorf("%+v", after)
		}
		s.shows("shop", "1")
	})
}
