package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/rollout"
)

// TestProgress: the status of a rollout has the steps of its policy, both arms, and what is next, in each
// state; that of one that was refused says where, and how many clients had it.
func TestProgress(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		if is := s.is("shop", "Idle"); is.Schedule != nil || is.Next != "" || is.Exposed != 0 {
			t.Errorf("without a rollout: %+v", is)
		}
		s.sends("shop", "a=2")
		sleep(200 * time.Millisecond)
		if is := s.is("shop", "Settling Quiet"); !strings.Contains(is.Next, "sends nothing more") {
			t.Errorf("before the cut: %q", is.Next)
		}
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		var names []string
		for _, step := range is.Schedule {
			names = append(names, step.Name)
		}
		if !slices.Equal(names, []string{"scouts", "50%", "all"}) || is.Schedule[1].Bake != s.policy.Steps[0].Bake || is.Schedule[2].Bake != s.policy.Final || is.Schedule[1].Clients != 5 || is.Schedule[2].Clients != 10 {
			t.Errorf("the steps: %+v", is.Schedule)
		}
		if is.Exposed != 5 || is.Canary == nil || *is.Canary != (ArmStatus{Clients: 5, Connected: 5, Accepted: 5}) || is.Control == nil || *is.Control != (ArmStatus{Clients: 5, Connected: 5}) {
			t.Errorf("%d exposed, the arms are %+v and %+v", is.Exposed, is.Canary, is.Control)
		}
		if is.Next != "all clients, for a final bake of 5m, after the bake" {
			t.Errorf("next: %q", is.Next)
		}
		s.order(Pause, nil)
		if is := s.status("shop"); !strings.Contains(is.Next, "rollout resume'") {
			t.Errorf("paused: %q", is.Next)
		}
		s.order(Resume, nil)
		sleep(time.Minute)
		if is := s.is("shop", "Proving Bake"); is.Step != 2 || is.Exposed != 10 || is.Canary == nil || !strings.Contains(is.Next, "last known good") {
			t.Errorf("in the final bake: %+v", is)
		}
		sleep(10 * time.Minute)
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=3")
		sleep(time.Second)
		is = s.is("shop", "Held")
		if is.Step != 0 || is.Steps != 2 || is.Exposed != 2 || is.Affected != 10 || is.Canaries != 0 || is.Canary == nil || is.Canary.Rejected != 1 || !strings.Contains(is.Next, "sends something else") {
			t.Errorf("refused: %+v, %+v", is, is.Canary)
		}
	})
}

// TestProgressAfterRestart: what is known of a refused revision from before a restart is in the status.
func TestProgressAfterRestart(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Held")
		s.restart(func() {
			s.sends("shop", "a=1") // stands for the restored configuration
			s.sends("shop", "a=2")
		})
		sleep(time.Second)
		if is := s.is("shop", "Held"); is.Exposed != 2 || is.Affected != 10 || is.Canary != nil {
			t.Errorf("after a restart: %+v", is)
		}
	})
}

// TestNextOfSteps: a step that waits says for what.
func TestNextOfSteps(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Manual
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Scouting Approval")
		if is := s.status("shop"); is.Next != "scouts, one client of each software version, after 'xdsrelay rollout approve'" || !is.Schedule[0].Approve {
			t.Errorf("before the scouts: %q", is.Next)
		}
		s.order(Approve, nil)
		sleep(time.Second)
		s.is("shop", "Stepping Approval")
		if is := s.status("shop"); is.Next != "50% of the clients for 1m, after 'xdsrelay rollout approve'" {
			t.Errorf("before the step: %q", is.Next)
		}
	})
}
