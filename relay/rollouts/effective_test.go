package rollouts

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/rollout"
)

// tookEffect fails unless these decisions took effect since the last call, each with its step.
func (s *stage) tookEffect(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, e := range s.effective {
		got = append(got, fmt.Sprintf("%s %d/%d %v", e.What, e.Step, e.Steps, e.Share))
		if e.Policy != "mine" || e.Key != "shop" || !slices.Contains(Decisions, e.What) {
			s.t.Errorf("%+v", e)
		}
	}
	if s.effective = nil; !slices.Equal(got, want) {
		s.t.Errorf("took effect: %q, expected %q", got, want)
	}
}

// TestEffective: each decision takes effect once, in order, with the step that it is about. A rollout that
// waits for an approval reports this once, also after a restart, and again after a pause.
func TestEffective(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Manual
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Hour)
		s.tookEffect("started 0/2 0%", "waiting 0/2 0%")
		s.restart(func() {
			s.sends("shop", "a=1")
			s.sends("shop", "a=2")
		})
		sleep(time.Hour)
		s.is("shop", "Scouting Approval")
		s.tookEffect()
		s.order(Pause, nil)
		s.order(Resume, nil)
		sleep(time.Hour)
		s.tookEffect("pause 0/2 0%", "resume 0/2 0%", "waiting 0/2 0%")
		s.order(Approve, nil)
		sleep(time.Hour)
		s.tookEffect("approve 0/2 0%", "step 0/2 0%", "passed 0/2 0%", "waiting 1/2 50%")
		s.order(Approve, nil)
		sleep(time.Hour)
		s.order(Approve, nil)
		sleep(time.Hour)
		s.tookEffect("approve 1/2 50%", "step 1/2 50%", "passed 1/2 50%", "waiting 2/2 100%", "approve 2/2 100%", "promoted 2/2 100%", "passed 2/2 100%")
		s.order(Undo, nil)
		s.tookEffect("undo 2/2 100%")
	})
}

// TestEffectiveOnceWritten: a step takes effect when clients are shown it, which requires the record. One that
// is taken back before never does.
func TestEffectiveOnceWritten(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.breaks(errors.New("disk full"))
		s.sends("shop", "a=2")
		sleep(time.Minute)
		s.tookEffect("started 0/2 0%")
		s.breaks(nil)
		sleep(2 * time.Second)
		s.tookEffect("step 0/2 0%", "passed 0/2 0%", "step 1/2 50%")
		s.breaks(errors.New("disk full"))
		sleep(2 * time.Minute)
		s.tookEffect("passed 1/2 50%")
		s.order(Abort, nil)
		s.breaks(nil)
		sleep(time.Minute)
		s.tookEffect("abort 2/2 100%")
	})
}

// TestEffectiveObserved: a policy that only observes has no effect.
func TestEffectiveObserved(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Observe
		s.sends("shop", "a=1")
		sleep(time.Hour)
		s.sends("shop", "a=2")
		sleep(time.Hour)
		s.tookEffect()
	})
}
