package rollouts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/rollout"
)

// system is another system that checks ask. Each question takes a time.
type system struct {
	takes time.Duration

	mu sync.Mutex
	// Guarded by mu.
	is        rollout.CheckResult
	questions []rollout.Question
	at        []time.Time
	now, most int // questions at a time
	cancelled int
}

func (s *system) ask(ctx context.Context, q *rollout.Question) rollout.CheckResult {
	s.mu.Lock()
	s.questions, s.at = append(s.questions, *q), append(s.at, time.Now())
	s.now++
	s.most = max(s.most, s.now)
	is := s.is
	s.mu.Unlock()
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		is = rollout.CheckResult{Reply: rollout.Unreachable}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if ctx.Err() != nil {
		s.cancelled++
	}
	is.Name = q.Check.Name
	return is
}

func (s *system) says(o rollout.Outcome, r rollout.Reply, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is = rollout.CheckResult{Outcome: o, Reply: r, Text: text}
}

func (s *system) asked() []rollout.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.questions)
}

// checked runs a test with a policy that has a check.
func checked(t *testing.T, f func(s *stage, other *system)) {
	t.Helper()
	bubble(t, func(s *stage) {
		other := &system{takes: time.Second}
		other.says(rollout.Passes, rollout.Decisive, "well")
		s.ask = other.ask
		s.policy.Checks = []rollout.Check{{Name: "slo", Webhook: "https://ci", Every: 20 * time.Second, Timeout: 5 * time.Second, NoData: rollout.WaitForData}}
		s.begins("shop")
		f(s, other)
	})
}

// TestChecks holds when a check is asked, and what: at once for scouts, at once in a step, at its interval,
// and when the bake is over; never without a revision on its way.
func TestChecks(t *testing.T) {
	checked(t, func(s *stage, other *system) {
		sleep(time.Minute)
		if all := other.asked(); len(all) > 0 {
			t.Fatalf("asked without a revision: %+v", all)
		}
		s.sends("shop", "a=2")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "2")
		s.expects("shop", "started", "step", "passed", "step", "passed", "promoted", "passed")
		var steps []string
		for i, q := range other.asked() {
			since := other.at[i].Sub(other.at[0]).Round(time.Second)
			steps = append(steps, fmt.Sprintf("%d/%v %v", q.Step, q.Final, since))
			if want := map[int]int{0: 2, 1: 5, 2: 10}[q.Step]; len(q.Canaries.IDs) != want || q.Canaries.Clients != want || q.Key != "shop" || !strings.HasPrefix(q.Revision, "r-") || q.Policy != "mine" || q.Steps != 2 {
				t.Errorf("%d canaries: %+v", want, q)
			}
			if want := map[int]int{0: 2, 1: 5}[q.Step]; len(q.Control.IDs) != want || slices.ContainsFunc(q.Control.IDs, func(id string) bool { return slices.Contains(q.Canaries.IDs, id) }) {
				t.Errorf("control group of %d: %+v", want, q)
			}
		}
		if got := strings.Join(steps[:6], ", "); got != "0/false 0s, 1/false 1s, 1/false 21s, 1/false 41s, 1/false 1m1s, 2/true 1m2s" {
			t.Errorf("asked at %s", got)
		}
		if last := steps[len(steps)-1]; last != "2/true 6m2s" {
			t.Errorf("the last question is %s", last)
		}
		if other.cancelled > 0 {
			t.Errorf("%d questions were cancelled", other.cancelled)
		}
		if n := s.control.Stats().Asked[Answered{"webhook", "pass"}]; n != uint64(len(steps)) {
			t.Errorf("%d answers are counted, expected %d", n, len(steps))
		}
	})
}

// TestCheckFails: a check that fails in the middle of a bake ends the rollout, and the status says why.
func TestCheckFails(t *testing.T) {
	checked(t, func(s *stage, other *system) {
		s.sends("shop", "a=2")
		sleep(30 * time.Second)
		s.is("shop", "Stepping Bake")
		other.says(rollout.Fails, rollout.Decisive, "the value is 0.2")
		sleep(20 * time.Second)
		is := s.is("shop", "Held")
		s.shows("shop", "1")
		if !slices.Contains(is.Findings, "check slo: fail, the value is 0.2") {
			t.Errorf("%q", is.Findings)
		}
		if n := len(s.fleet.with(is.Revision)); n != 5 {
			t.Errorf("%d clients had the revision", n)
		}
		n := len(other.asked())
		sleep(time.Hour)
		if all := other.asked(); len(all) != n {
			t.Errorf("asked %d times about a revision that is refused", len(all)-n)
		}
	})
}

// TestCheckWithoutData: what is no answer never passes a step, however long it lasts. After the bake it
// fails the step if the policy says so, but not while an answer is on its way or the system wants more time.
func TestCheckWithoutData(t *testing.T) {
	for _, c := range []struct {
		reply  rollout.Reply
		noData rollout.NoData
		state  string
	}{
		{rollout.Unreachable, rollout.WaitForData, "Scouting Bake"},
		{rollout.Empty, rollout.WaitForData, "Scouting Bake"},
		{rollout.MoreTime, rollout.WaitForData, "Scouting Bake"},
		{rollout.MoreTime, rollout.FailWithoutData, "Scouting Bake"},
		{rollout.Unreachable, rollout.FailWithoutData, "Held"},
		{rollout.Empty, rollout.FailWithoutData, "Held"},
	} {
		t.Run(fmt.Sprint(c.reply, " ", c.noData), func(t *testing.T) {
			checked(t, func(s *stage, other *system) {
				s.policy.Checks[0].NoData = c.noData
				other.says(rollout.NotEnough, c.reply, "nothing")
				s.sends("shop", "a=2")
				sleep(time.Second)
				s.is("shop", "Scouting Bake") // asked, without an answer yet
				sleep(3 * time.Hour)
				is := s.is("shop", c.state)
				s.shows("shop", "1")
				if n := len(s.fleet.with(is.Revision)); n != 2 {
					t.Errorf("%d clients had the revision", n)
				}
				if c.state == "Held" {
					return
				}
				if is.Waits != rollout.ForData.String() || !slices.Contains(is.Findings, "check slo: not enough data, nothing") || !is.IsOverdue {
					t.Errorf("%+v", is)
				}
				other.says(rollout.Passes, rollout.Decisive, "well")
				sleep(time.Minute)
				s.is("shop", "Stepping Bake")
			})
		})
	}
}

// TestCheckAfterBake: an answer from before the end of a bake does not pass it, and one that was asked about
// the step before counts for nothing.
func TestCheckAfterBake(t *testing.T) {
	checked(t, func(s *stage, other *system) {
		s.policy.Checks[0].Every = time.Hour
		s.sends("shop", "a=2")
		sleep(30 * time.Second) // passed for the step, and asked again only when the bake is over
		s.is("shop", "Stepping Bake")
		other.says(rollout.NotEnough, rollout.Unreachable, "down")
		sleep(5 * time.Minute)
		if is := s.is("shop", "Stepping Bake"); is.Waits != rollout.ForData.String() {
			t.Errorf("%+v", is)
		}
	})
	checked(t, func(s *stage, other *system) {
		s.policy.Checks[0].NoData = rollout.FailWithoutData
		other.takes = 4 * time.Second // longer than the pause between the last but one question and the end of the bake
		s.sends("shop", "a=2")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "2")
	})
	checked(t, func(s *stage, other *system) {
		other.takes = 10 * time.Second // an answer is on its way when the bake ends
		s.sends("shop", "a=2")
		sleep(65 * time.Second)
		s.is("shop", "Stepping Bake")
		other.says(rollout.Fails, rollout.Decisive, "bad")
		sleep(time.Minute)
		s.is("shop", "Held")
		s.shows("shop", "1")
	})
	checked(t, func(s *stage, other *system) {
		other.takes = time.Hour
		s.sends("shop", "a=2")
		sleep(10 * time.Second)
		s.order("abort", nil)
		sleep(time.Second)
		other.mu.Lock()
		if other.now != 0 || other.cancelled != 1 {
			t.Errorf("%d questions on their way, %d cancelled", other.now, other.cancelled)
		}
		other.mu.Unlock()
		s.is("shop", "Held")
	})
}

// TestManyChecks: a node asks for a bounded number of answers at a time, and all keys get theirs.
func TestManyChecks(t *testing.T) {
	checked(t, func(s *stage, other *system) {
		for i := range 40 {
			key := fmt.Sprint("key-", i)
			s.join(key, "only of "+key, "v1")
			s.begins(key)
			s.sends(key, "a=2")
		}
		sleep(30 * time.Minute)
		for i := range 40 {
			s.is(fmt.Sprint("key-", i), "Idle")
		}
		other.mu.Lock()
		defer other.mu.Unlock()
		if other.most != maxAsking {
			t.Errorf("%d questions at a time, expected %d", other.most, maxAsking)
		}
	})
}

// TestFirstIDs holds how many ids a question has.
func TestFirstIDs(t *testing.T) {
	var many []string
	for i := range 3 * rollout.MaxAsked {
		many = append(many, fmt.Sprintf("client-%03d", i%250))
	}
	if got := firstOf(many); len(got) != rollout.MaxAsked || got[0] != "client-000" || got[1] != "client-001" {
		t.Errorf("%d ids: %q", len(got), got[:2])
	}
	if got := firstOf([]string{"a", strings.Repeat("b", maxAskedBytes), "c"}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%d ids", len(got))
	}
}
