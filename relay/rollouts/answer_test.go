package rollouts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
)

// sendsAnd is sends, and returns what the response has carried.
func (s *stage) sendsAnd(key string, all ...string) cache.Carried {
	s.t.Helper()
	f := s.feed[key]
	before := f.PendingEdits(clusters)
	s.sends(key, all...)
	return f.Carried(&cache.Update{Type: clusters, Full: true}, before)
}

// verdict expects a verdict about what a response has carried, as the first one since the last call. Others,
// that its revision passes, do nothing.
func (s *stage) verdict(key string, c cache.Carried, is cache.Outcome, reason string) {
	s.t.Helper()
	all := s.feed[key].TakeVerdicts()
	others := slices.ContainsFunc(all[min(1, len(all)):], func(v cache.Verdict) bool { return v.Outcome != cache.VerdictPasses })
	if len(all) == 0 || others || all[0].Outcome != is || all[0].Type != clusters || all[0].Change != c.Change || all[0].Reason != reason {
		s.t.Errorf("verdicts %+v, expected the first with outcome %d and %q", all, is, reason)
	}
}

// TestScoutsAnswer: K1: the control plane needs to wait no longer once the scouts have answered, before the
// bakes. With manual approval, or an answer once a change is stored, it does not wait.
func TestScoutsAnswer(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Canaries.Small = 100 // scouts have a bake of their own
		s.begins("shop")
		s.feed["shop"].TakeVerdicts()
		c := s.sendsAnd("shop", "a=2")
		if c.Wait != 900*time.Millisecond {
			t.Errorf("the ACK may wait %v", c.Wait)
		}
		sleep(200 * time.Millisecond)
		if all := s.feed["shop"].TakeVerdicts(); len(all) > 0 {
			t.Errorf("before the cut: %+v", all)
		}
		sleep(400 * time.Millisecond)
		s.is("shop", "Scouting Bake")
		s.verdict("shop", c, cache.VerdictPasses, "")
		sleep(time.Hour)
		s.is("shop", "Idle")
		for i, change := range []func(p *rollout.Policy){
			func(p *rollout.Policy) { p.Mode = rollout.Manual },
			func(p *rollout.Policy) { p.Upstream.Answer = rollout.AtOnce },
		} {
			p := *s.policy
			change(&p)
			s.policy = &p
			s.control.RulesChanged()
			if c := s.sendsAnd("shop", fmt.Sprint("a=", 3+i)); c.Wait != 0 {
				t.Errorf("the ACK may wait %v", c.Wait)
			}
			s.sends("shop", "a=2")
			sleep(time.Minute)
		}
	})
}

// TestComplaint: K2: the control plane gets the resource, the reason, how many canaries have rejected it, and
// what that means for others, in one verdict for each revision: not again after an order to retry it.
func TestComplaint(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.feed["shop"].TakeVerdicts()
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		c := s.sendsAnd("shop", "a=2", "payments=1")
		sleep(time.Second)
		is := s.is("shop", "Held")
		s.verdict("shop", c, cache.VerdictFails,
			"payments: cluster payments: bad; 1 of 2 canaries rejected it; rolled back; 8 other clients are not affected ("+is.Revision+")")
		s.order(Retry, nil)
		sleep(time.Minute)
		s.is("shop", "Held")
		s.verdict("shop", c, cache.VerdictPasses, "")
		c = s.sendsAnd("shop", "a=2", "payments=1", "b=1") // another revision
		sleep(time.Second)
		is = s.is("shop", "Held")
		s.verdict("shop", c, cache.VerdictFails,
			"payments: cluster payments: bad; 1 of 2 canaries rejected it; rolled back; 8 other clients are not affected ("+is.Revision+")")
		again := s.sendsAnd("shop", "a=2", "payments=1") // refused
		sleep(time.Minute)
		s.verdict("shop", again, cache.VerdictPasses, "")
	})
}

// TestComplaintLate: K2: with late_nack false, a rejection counts only in place of an ACK that waits.
func TestComplaintLate(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Upstream.LateNACK, s.policy.OnFail = false, rollout.HoldThere
		s.begins("shop")
		s.feed["shop"].TakeVerdicts()
		s.fleet.become(rejects, func(c *client) bool { return c.version == "v1" })
		c := s.sendsAnd("shop", "a=2", "payments=1")
		sleep(time.Second)
		is := s.is("shop", "Held")
		s.verdict("shop", c, cache.VerdictFailsInTime,
			"payments: cluster payments: bad; 1 of 2 canaries rejected it; they keep it until an operator decides; 8 other clients are not affected ("+is.Revision+")")
	})
}

// TestComplaintAboutLost: K2: canaries that a revision crashes, or that do not answer, are a reason, too. The
// resources are those that it changes. In the final bake nobody is left who is not affected.
func TestComplaintAboutLost(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.feed["shop"].TakeVerdicts()
		s.fleet.become(crashes, everybody)
		c := s.sendsAnd("shop", "a=2", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1")
		sleep(time.Minute)
		is := s.is("shop", "Held")
		s.verdict("shop", c, cache.VerdictFails,
			"a, b, c, d, e and 2 more; canaries with it are not well: lost: fail, all 2 canaries were lost; rolled back; 8 other clients are not affected ("+is.Revision+")")
		s.fleet.become(accepts, everybody)
		c = s.sendsAnd("shop", "a=3")
		sleep(90 * time.Second)
		is = s.is("shop", "Proving Bake")
		s.verdict("shop", c, cache.VerdictPasses, "")
		for i := range s.fleet.clients {
			s.fleet.disconnect(s.fleet.clients[i], true)
		}
		sleep(time.Minute)
		s.is("shop", "Held")
		all := s.feed["shop"].TakeVerdicts()
		if len(all) != 1 || all[0].Outcome != cache.VerdictFails || all[0].Change != c.Change || !strings.HasPrefix(all[0].Reason, "a; clients with it are not well: lost: fail, all ") || !strings.HasSuffix(all[0].Reason, "lost; all clients return to the revision before ("+is.Revision+")") {
			t.Errorf("%+v", all)
		}
	})
}

// TestNothingWaitsForNobody: the control plane does not wait for scouts that there are not soon: while the
// breaker is open, or no client may be a canary, and for a change during a final bake.
func TestNothingWaitsForNobody(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.feed["shop"].TakeVerdicts()
		s.sendsAnd("shop", "a=2")
		sleep(90 * time.Second)
		s.is("shop", "Proving Bake")
		s.feed["shop"].TakeVerdicts()
		c := s.sendsAnd("shop", "a=3")
		sleep(100 * time.Millisecond)
		s.verdict("shop", c, cache.VerdictPasses, "")
		sleep(time.Hour)
		s.feed["shop"].TakeVerdicts()
		for _, c := range s.fleet.clients {
			c.ineligible = true
		}
		c = s.sendsAnd("shop", "a=4")
		sleep(500 * time.Millisecond)
		if is := s.status("shop"); is.Waits != "no client that may be a canary" {
			t.Errorf("%+v", is)
		}
		s.verdict("shop", c, cache.VerdictPasses, "")
		sleep(time.Minute)
		if all := s.feed["shop"].TakeVerdicts(); len(all) > 0 {
			t.Errorf("again: %+v", all)
		}
	})
}

// TestComplaintIsShort: C4: node ids are no part of a complaint, and texts of clients are cut and without
// secrets, however many clients say what.
func TestComplaintIsShort(t *testing.T) {
	c := complaint{
		revision: "r-1", canaries: 12_345, others: 1, who: "canaries", consequence: "rolled back", rejected: 1234, overlay: &cache.Overlay{},
		verdict: &rollout.Verdict{Findings: []rollout.Finding{{Signal: rollout.NACKSignal, Outcome: rollout.Fails}}},
	}
	for i := range maxTrouble {
		c.trouble.Rejections = append(c.trouble.Rejections, Rejection{
			Client: fmt.Sprint("client-", i), Type: clusters.URL, Reason: strings.Repeat(fmt.Sprint(i, " password=hunter2 "), 1000),
			Resources: []string{strings.Repeat("n", 10_000), "b"},
		})
	}
	text := c.about(clusters)
	if len(text) > 4<<10 || strings.Contains(text, "hunter2") || strings.Contains(text, "client-") ||
		!strings.Contains(text, ", b: 0 ") || !strings.HasSuffix(text, "; 1,234 of 12,345 canaries rejected it; rolled back; 1 other client is not affected (r-1)") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if text := c.about(resource.TypeOf(resource.RouteURL)); text != "" {
		t.Errorf("about another type: %q", text)
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %s, expected %s", n, got, want)
		}
	}
}
