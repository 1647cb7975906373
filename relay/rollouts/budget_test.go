package rollouts

import (
	"testing"
	"time"

	"xdsrelay/relay/rollout"
)

// TestBudget: all keys share the budget, for as long as a first bake takes, and a failure closes the
// others out once the breaker opens.
func TestBudget(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Steps = []rollout.Step{{Share: 0.2, Bake: 3 * time.Hour}}
		s.limits = rollout.Limits{Shares: []rollout.Share{0.2}, Failures: 2, Within: time.Hour} // 2 of 10 clients
		for i, c := range s.fleet.clients {
			c.version = "v1"
			if i >= 5 {
				c.key = "blog"
			}
		}
		s.begins("shop")
		s.begins("blog")
		s.policy.Canaries.Small = 1
		s.sends("shop", "a=2")
		sleep(time.Second)
		first := s.is("shop", "Stepping Bake")
		s.fleet.become(accepts, everybody)
		s.sends("blog", "a=2")
		sleep(2 * time.Hour)
		second := s.status("blog")
		budget, _ := s.control.Budget()
		if budget.Limit != 2 || budget.Used > 2 || budget.Used != first.Tokens+second.Tokens || first.Tokens == 0 || budget.IsOpen {
			t.Errorf("the budget is %+v: %+v, %+v", budget, s.status("shop"), second)
		}
		if is := s.status("shop"); is.Tokens != first.Tokens {
			t.Errorf("a rollout in its first bake has %d tokens after 2 hours, and had %d", is.Tokens, first.Tokens)
		}
	})
}

// TestBreaker: after some failures no rollout starts until an operator says so.
func TestBreaker(t *testing.T) {
	bubble(t, func(s *stage) {
		s.limits.Failures, s.limits.Within = 2, time.Hour
		for i, c := range s.fleet.clients {
			c.key = []string{"shop", "blog", "mail"}[i%3]
		}
		for _, key := range []string{"shop", "blog", "mail"} {
			s.begins(key)
		}
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=2")
		s.sends("blog", "a=2")
		sleep(time.Second)
		if budget, _ := s.control.Budget(); !budget.IsOpen {
			t.Error("the breaker is not open after 2 failures")
		}
		s.fleet.become(accepts, everybody)
		s.sends("mail", "a=2")
		sleep(time.Hour)
		if is := s.is("mail", "Scouting Tokens"); is.Waits != "breaker open" {
			t.Errorf("%+v", is)
		}
		s.restart(func() {
			for _, key := range []string{"shop", "blog", "mail"} {
				s.sends(key, "a=1")
			}
			s.sends("mail", "a=2")
		})
		sleep(time.Minute)
		if is := s.is("mail", "Scouting Tokens"); is.Waits != "breaker open" {
			t.Errorf("after a restart: %+v", is)
		}
		if !s.control.ResumeAll() || s.control.ResumeAll() {
			t.Error("ResumeAll reports wrongly whether the breaker was open")
		}
		sleep(10 * time.Minute)
		s.is("mail", "Idle")
	})
}
