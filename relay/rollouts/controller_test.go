package rollouts

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGood: a revision that clients accept goes to a scout of each version, to the share of the step and to
// all, and is good after its final bake. Until then nothing of the key may become last known good.
func TestGood(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(200 * time.Millisecond)
		s.is("shop", "Settling Quiet")
		sleep(time.Second / 2)
		is := s.is("shop", "Stepping Bake")
		if n := len(s.fleet.with(is.Revision)); n != 5 || is.Canaries != 5 || is.Affected != 10 || is.Step != 1 || is.Steps != 2 || is.Share != 0.5 {
			t.Errorf("%d clients have the revision: %+v", n, is)
		}
		s.shows("shop", "1")
		sleep(time.Minute)
		s.is("shop", "Proving Bake")
		s.shows("shop", "2")
		if n := len(s.fleet.with(is.Revision)); n != 10 {
			t.Errorf("%d clients were sent the revision after the promotion", n)
		}
		if !s.control.IsUnproven(s.group("shop"), clusters) {
			t.Error("the revision may become last known good before its final bake")
		}
		sleep(6 * time.Minute)
		after := s.is("shop", "Idle")
		if after.Stable != is.Revision || after.Good != is.Revision || after.Tokens != 0 || s.control.IsUnproven(s.group("shop"), clusters) {
			t.Errorf("after the final bake: %+v", after)
		}
		s.expects("shop", "started", "step", "passed", "step", "passed", "promoted", "passed")
	})
}

// TestRejected: the first rejection takes the revision back from the scouts, and holds the key. The same
// content is refused when it arrives again; other content starts at once.
func TestRejected(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2", "payments=1", "pay=1")
		sleep(time.Second)
		is := s.is("shop", "Held")
		if with := s.fleet.with(is.Revision); len(with) != 2 {
			t.Errorf("%q got the revision, expected the scouts", with)
		}
		if len(is.Refused) != 1 || is.Refused[0] != is.Revision || is.Waits != "refused" || len(is.Rejections) != 1 || !isRejection(&is.Rejections[0]) {
			t.Errorf("held: %+v", is)
		}
		if !slices.Equal(s.fleet.hidden, []bool{false}) {
			t.Errorf("Hide was called with %v", s.fleet.hidden)
		}
		if d := is.History[len(is.History)-1]; d.What != "failed" || len(d.Rejections) != 1 || !isRejection(&d.Rejections[0]) {
			t.Errorf("the decision: %+v", d)
		}
		s.sends("shop", "a=2", "b=1")
		s.sends("shop", "a=2", "payments=1", "pay=1")
		sleep(time.Minute)
		s.is("shop", "Held")
		if with := s.fleet.with(is.Revision); len(with) != 2 {
			t.Errorf("%q got the refused revision", with)
		}
		s.fleet.become(accepts, everybody)
		s.sends("shop", "a=3")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "3")
		s.sends("shop", "a=2", "payments=1", "pay=1")
		sleep(time.Minute)
		s.shows("shop", "3")
	})
}

// isRejection reports whether a rejection names the client, the reason, and what it mentions.
func isRejection(r *Rejection) bool {
	return strings.HasPrefix(r.Client, "client-") && r.Type == clusters.URL && r.Reason == "cluster payments: bad" && slices.Equal(r.Resources, []string{"payments"}) && !r.At.IsZero()
}

// TestWithdrawn: a control plane that returns to the stable content ends the rollout, whatever its state.
func TestWithdrawn(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		for _, h := range []habit{accepts, rejects} {
			s.fleet.become(h, everybody)
			s.sends("shop", "a=2")
			sleep(time.Second)
			s.sends("shop", "a=1")
			sleep(time.Second)
			if is := s.is("shop", "Idle"); is.Tokens != 0 {
				t.Errorf("%+v", is)
			}
			s.shows("shop", "1")
			if len(s.fleet.shows) > 0 {
				t.Error("canaries still see the revision")
			}
		}
	})
}

// TestUnanswered: a canary that does not answer in time fails the step.
func TestUnanswered(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.fleet.become(ignores, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2")
		sleep(9 * time.Second)
		s.is("shop", "Scouting Bake")
		sleep(3 * time.Second)
		if is := s.is("shop", "Held"); !strings.Contains(strings.Join(is.Findings, "\n"), "unanswered: fail") || len(is.Unanswered) != 1 || is.Unanswered[0].Client == "" {
			t.Errorf("held: %+v", is)
		}
	})
}

// TestRejectionsCountOnce: clients without an identity from one source count as one. Where the policy wants
// two rejections, they neither fail the rollout nor block it.
func TestRejectionsCountOnce(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.FailIf.NACKs = 2
		for _, c := range s.fleet.clients {
			c.source = "192.0.2.1"
		}
		s.begins("shop")
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2")
		sleep(20 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "2")
	})
}

// TestNothingChanged: a change that leaves what is pending as it is disturbs neither a bake nor the history
// of a key that is held.
func TestNothingChanged(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		for range 50 {
			sleep(time.Second)
			s.control.inbox.change(s.group("shop"))
		}
		sleep(15 * time.Second)
		s.is("shop", "Proving Bake")
		sleep(10 * time.Minute)
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=3")
		sleep(time.Second)
		before := len(s.is("shop", "Held").History)
		s.control.inbox.change(s.group("shop"))
		sleep(time.Second)
		if after := s.is("shop", "Held"); len(after.History) != before {
			t.Errorf("%+v", after)
		}
	})
}

// TestUndone: a key without a policy whose newest revision was undone, and that gets one, starts no step
// until the control plane has sent something else.
func TestUndone(t *testing.T) {
	bubble(t, func(s *stage) {
		policy := s.policy
		s.policy = nil
		s.begins("shop")
		s.sends("shop", "a=2")
		if _, _, err := s.cache.Undo("shop", cache.Freeze{Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		s.policy = policy
		s.control.Attach(s.group("shop"), "rule")
		s.cache.Freeze("other", cache.Freeze{Reason: "test"})
		s.control.SetFrozen("somebody", "test") // about another key
		sleep(time.Minute)
		if is := s.status("shop"); is.Waits != "frozen" || !strings.HasSuffix(is.State, "Braked") {
			t.Errorf("%+v", is)
		}
		s.shows("shop", "1")
	})
}

// TestFinalBake: a rejection after the promotion returns all clients to the revision before.
func TestFinalBake(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(2 * time.Minute)
		is := s.is("shop", "Proving Bake")
		s.fleet.mu.Lock()
		for _, c := range s.fleet.clients {
			if c.ID == "client-4" {
				s.fleet.notifyLocked(c, fanout.CanaryEvent{Exposure: fanout.Rejected, Reason: "late"})
			}
		}
		s.fleet.mu.Unlock()
		sleep(time.Second)
		after := s.is("shop", "Held")
		s.shows("shop", "1")
		if !slices.Contains(after.Refused, is.Revision) {
			t.Errorf("%+v", after)
		}
	})
}

// TestFailureWithoutRecords: while the records cannot be written, a failure takes the revision back, also
// after the next step was decided.
func TestFailureWithoutRecords(t *testing.T) {
	for _, wait := range []time.Duration{10 * time.Second, 2 * time.Minute} { // before the step to all, and after
		bubble(t, func(s *stage) {
			s.policy.Steps = []rollout.Step{{Share: 0.5, Bake: time.Minute}}
			s.begins("shop")
			s.sends("shop", "a=2")
			sleep(time.Second)
			is := s.is("shop", "Stepping Bake")
			s.breaks(errors.New("disk full"))
			sleep(wait)
			s.shows("shop", "1")
			s.fleet.mu.Lock()
			for _, c := range s.fleet.clients {
				if len(c.got) > 0 {
					s.fleet.notifyLocked(c, fanout.CanaryEvent{Exposure: fanout.Rejected, Reason: "late"})
					break
				}
			}
			s.fleet.mu.Unlock()
			sleep(time.Second)
			after := s.is("shop", "Held")
			if len(s.fleet.shows) > 0 || !slices.Equal(s.fleet.hidden, []bool{false}) {
				t.Errorf("after %v: canaries still have the revision; Hide was called with %v: %+v", wait, s.fleet.hidden, after)
			}
			s.breaks(nil)
			sleep(10 * time.Minute)
			s.is("shop", "Held")
			s.shows("shop", "1")
			if with := s.fleet.with(is.Revision); len(with) != 5 {
				t.Errorf("%q got the revision", with)
			}
		})
	}
}

// TestNewerRevision: a newer revision supersedes the one on its way, which is not refused.
func TestNewerRevision(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		s.sends("shop", "a=3")
		sleep(time.Second)
		if newer := s.is("shop", "Stepping Bake"); newer.Revision == is.Revision || len(newer.Refused) > 0 {
			t.Errorf("%+v", newer)
		}
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "3")
		if with := s.fleet.with(is.Revision); len(with) > 5 {
			t.Errorf("%q got a superseded revision", with)
		}
	})
}

// TestRulesChanged: without a policy all clients get what was held back, and canaries are no longer shown
// anything; with one the rollout of the next change starts.
func TestRulesChanged(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		policy := s.policy
		s.policy = nil
		s.control.RulesChanged()
		s.shows("shop", "2")
		if _, governed := s.control.Status("shop"); governed || len(s.fleet.shows) > 0 {
			t.Error("the key still has a policy, or canaries")
		}
		s.policy = policy
		s.control.Attach(s.group("shop"), "rule")
		s.sends("shop", "a=3")
		sleep(10 * time.Second) // it may be a part of the revision of the record
		s.is("shop", "Stepping Bake")
		s.shows("shop", "2")
	})
}

// TestHoldThere: with on_fail hold, canaries keep a revision that failed until an order takes it back.
func TestHoldThere(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.OnFail = rollout.HoldThere
		s.begins("shop")
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		s.sends("shop", "a=2")
		sleep(time.Minute)
		s.is("shop", "Held")
		if len(s.fleet.shows) == 0 {
			t.Error("canaries do not keep the revision")
		}
		s.order(Abort, nil)
		s.is("shop", "Held")
		if len(s.fleet.shows) > 0 {
			t.Error("canaries keep the revision after an abort")
		}
	})
}

// TestOldGroup: a key that has ended and begun again has one record, and keeps its tokens.
func TestOldGroup(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=2")
		sleep(time.Second)
		held := s.is("shop", "Held")
		old := s.cache
		s.cache = s.newCache() // another group by the same name
		clear(s.feed)
		s.control.mu.Lock()
		s.control.cfg.Group = s.cache.GroupOf
		s.control.mu.Unlock()
		s.fleet.become(accepts, everybody)
		s.sends("shop", "a=1")
		s.sends("shop", "a=3")
		sleep(10 * time.Second) // it may be a part of what is refused
		is := s.is("shop", "Stepping Bake")
		if is.Tokens == 0 || !slices.Equal(is.Refused, held.Refused) {
			t.Errorf("%+v", is)
		}
		sleep(40 * time.Second) // the old one is forgotten
		if after := s.is("shop", "Stepping Bake"); after.Tokens != is.Tokens {
			t.Errorf("%+v", after)
		}
		if s.control.sizeOf() != 1 {
			t.Error("the key that has ended is still known")
		}
		old.Close()
	})
}

func (c *Controller) sizeOf() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}
