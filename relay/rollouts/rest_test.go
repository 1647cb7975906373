package rollouts

import (
	"context"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
	"xdsrelay/shard/ledger"
)

func (c *Controller) isAtRest(g *cache.Group) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, rests := c.resting[g]
	return rests && c.keys[g] == nil && c.names[g.Key] == nil
}

// TestRest: a key rests until something is pending, and after a request about it. Its status is the same.
func TestRest(t *testing.T) {
	bubble(t, func(s *stage) {
		s.sends("shop", "a=1")
		sleep(time.Second)
		rests := func() bool { return s.control.isAtRest(s.group("shop")) }
		if !rests() {
			t.Error("a new key does not rest")
		}
		all := s.control.All()
		if _, governs := s.control.Budget(); !governs || len(all) != 1 || all[0].State != "Idle" || !rests() {
			t.Errorf("%t, %+v", governs, all)
		}
		if is := s.is("shop", "Idle"); is.Policy != all[0].Policy || rests() {
			t.Errorf("%+v", is)
		}
		sleep(time.Minute)
		if !rests() {
			t.Error("the key does not rest again")
		}
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		s.sends("shop", "a=1")
		sleep(time.Minute)
		s.is("shop", "Idle")
		sleep(time.Minute)
		if rests() {
			t.Error("a key with a history rests")
		}
		s.sends("blog", "a=1")
		sleep(time.Second)
		if !s.control.isAtRest(s.group("blog")) {
			t.Error("another new key does not rest")
		}
		s.cache.Freeze("blog", cache.Freeze{Reason: "test"})
		s.control.SetFrozen("somebody", "test")
		if is := s.status("blog"); is.State != "Idle Braked" || len(is.History) != 1 {
			t.Errorf("%+v", is)
		}
	})
}

// emptyLedger has no records, and keeps none.
type emptyLedger struct{ Ledger }

func (emptyLedger) Record(context.Context, string) (ledger.Entry, error) { return ledger.Entry{}, nil }

func (emptyLedger) WriteRecord(_ context.Context, _ string, _ uint64, e ledger.Entry) (ledger.Written, error) {
	return ledger.Written{Seq: e.Seq + 1, HasContents: true}, nil
}

// TestRestInTier: a key of a tier keeps its role while it rests, and wakes when that changes, when a node begins to
// follow, and when another node says something about it.
func TestRestInTier(t *testing.T) {
	bubble(t, func(s *stage) {
		s.stop()
		var followers []string
		epoch := uint64(7)
		s.control = New(Config{
			Rules:  func(string) Rule { return Rule{Policy: s.policy, Traits: s.fleet.traits} },
			Limits: func() rollout.Limits { return s.limits }, Clients: s.fleet, Total: func() int { return 10 }, Group: s.cache.GroupOf,
			Tier: &Tier{
				Node: "n1", Ledger: emptyLedger{}, Epoch: func(string) (uint64, bool) { return epoch, true },
				Followers: func() map[string][]string { return map[string][]string{"shop": followers} },
				Members:   func() []string { return []string{"n1", "n2", "n3"} }, Able: func() bool { return true },
			},
		}, Records{})
		s.stop = func() {}
		s.sends("shop", "a=1")
		g := s.group("shop")
		rests := func(want bool, when string) {
			t.Helper()
			s.control.sweep()
			if s.control.isAtRest(g) != want {
				t.Errorf("%s: at rest is %t", when, !want)
			}
		}
		role := func() Role {
			s.control.mu.Lock()
			defer s.control.mu.Unlock()
			if k := s.control.keys[g]; k != nil {
				return k.role
			}
			return s.control.resting[g].tier.role
		}
		agree := func() {
			if err := s.control.readRecords(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.control.writeRecords(t.Context()); err != nil {
				t.Error(err)
			}
			s.control.turn(time.Now())
		}
		asked := func(node string) []Shown {
			if m := s.control.outgoing(time.Now())[node]; m != nil {
				return m.Shown
			}
			return nil
		}
		rests(true, "another node owns it")

		left := s.control.Own(g)
		rests(false, "the record is not read yet")
		agree()
		rests(true, "the record is read")
		if role() != Deciding || asked("n2") != nil {
			t.Errorf("the role is %v", role())
		}

		followers = []string{"n2"}
		said := asked("n2")
		rests(false, "n2 begins to follow")
		if len(said) != 1 || said[0].Epoch != 7 || said[0].As != AsTables {
			t.Fatalf("n2 was sent %+v", said)
		}
		s.control.mu.Lock()
		delete(s.control.tier.busy, "n2")
		s.control.take("n2", []Report{{Key: "shop", Epoch: 7, Seq: said[0].Seq}}, time.Now())
		s.control.mu.Unlock()
		s.control.turn(time.Now())
		rests(true, "n2 has answered")
		if said = asked("n2"); said != nil {
			t.Errorf("n2 was sent %+v again", said)
		}

		followers = []string{"n2", "n3"}
		said = asked("n3")
		s.control.mu.Lock()
		clear(s.control.tier.busy)
		s.control.take("n3", []Report{{Key: "shop", Epoch: 8, Seq: 1}}, time.Now())
		s.control.mu.Unlock()
		if len(said) != 1 || role() != Claiming {
			t.Errorf("n3 was sent %+v, and follows a later epoch; the role is %v, expected claiming", said, role())
		}
		agree()

		answer := s.control.Received(Exchange{From: "n3", Shown: []Shown{{Key: "shop", Epoch: 8, Seq: 1, Revision: "r-1"}}})
		if len(answer.Reports) > 0 {
			t.Errorf("the node that decides has answered %+v", answer)
		}
		rests(false, "n3 has decided under a later epoch")
		left()
		s.control.Received(Exchange{From: "n3", Shown: []Shown{{Key: "shop", Epoch: 8, Seq: 5, Revision: "r-1"}}})
		rests(true, "it follows n3")
		answer = s.control.Received(Exchange{From: "n2", Shown: []Shown{{Key: "shop", Epoch: 7, Seq: 9, As: AsCandidate, Revision: "r-2"}}})
		if len(answer.Reports) != 1 || answer.Reports[0].Epoch != 8 || answer.Reports[0].Seq != 5 {
			t.Errorf("an older message counts: %+v", answer)
		}
		if all := s.control.All(); len(all) != 1 || all[0].State != "following" || all[0].Revision != "r-1" || role() != Following {
			t.Errorf("%+v", all)
		}
	})
}
