package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
	"xdsrelay/shard/ledger"
)

// budgetLedger has a budget, and no records.
type budgetLedger struct {
	emptyLedger

	budget ledger.Entry
	broken error // of all calls about the budget; nil for none
}

func (l *budgetLedger) Budget(context.Context) (ledger.Entry, error) { return l.budget, l.broken }

func (l *budgetLedger) WriteBudget(_ context.Context, after uint64, text string) (uint64, error) {
	if l.broken != nil {
		return 0, l.broken
	}
	if after != l.budget.Seq {
		return 0, ledger.ErrChanged
	}
	l.budget = ledger.Entry{Seq: after + 1, Text: text}
	return l.budget.Seq, nil
}

// held is how many tokens a key holds.
func (l *budgetLedger) held(t *testing.T, key string) int {
	t.Helper()
	var b rollout.Budget
	if err := json.Unmarshal([]byte(l.budget.Text), &b); err != nil {
		t.Fatal(err)
	}
	return b.Held[key].Count
}

// TestTokensAreReturned: the tokens of a rollout that nobody continues are returned, for otherwise the rollouts of
// all other keys wait for an hour.
func TestTokensAreReturned(t *testing.T) {
	text, err := json.Marshal(rollout.Budget{Held: map[string]rollout.Holding{"shop": {Count: 1, Renewed: time.Now().AddDate(100, 0, 0)}, "blog": {Count: 2, Renewed: time.Now().AddDate(100, 0, 0)}}})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(s *stage, l *budgetLedger) *cache.Group {
		s.stop()
		s.control = New(Config{
			Rules:  func(string) Rule { return Rule{Policy: s.policy, Traits: s.fleet.traits} },
			Limits: func() rollout.Limits { return s.limits }, Clients: s.fleet, Total: func() int { return 10 }, Group: s.cache.GroupOf,
			Tier: &Tier{
				Node: "n1", Ledger: l, Epoch: func(string) (uint64, bool) { return 7, true },
				Followers: func() map[string][]string { return nil },
				Members:   func() []string { return []string{"n1", "n2"} }, Able: func() bool { return true },
			},
		}, Records{})
		s.stop = func() {}
		s.sends("shop", "a=1")
		return s.group("shop")
	}
	agree := func(t *testing.T, s *stage) {
		t.Helper()
		s.control.turn(time.Now())
		if err := s.control.readRecords(t.Context()); err != nil {
			t.Error(err)
		}
		_ = s.control.writeBudget(t.Context()) // it may be broken
		s.control.turn(time.Now())
	}
	t.Run("of the owner before", func(t *testing.T) {
		bubble(t, func(s *stage) {
			l := &budgetLedger{budget: ledger.Entry{Seq: 3, Text: string(text)}}
			s.control.Own(begin(s, l))
			agree(t, s)
			if shop, blog := l.held(t, "shop"), l.held(t, "blog"); shop != 0 || blog != 2 {
				t.Errorf("shop holds %d tokens and blog %d, expected 0 and 2", shop, blog)
			}
		})
	})
	t.Run("that were asked for before another node became the owner", func(t *testing.T) {
		bubble(t, func(s *stage) {
			l := &budgetLedger{budget: ledger.Entry{Seq: 3, Text: "{}"}}
			left := s.control.Own(begin(s, l))
			agree(t, s)
			l.broken = errors.New("redis is down")
			s.sends("shop", "a=2")
			for range 3 {
				agree(t, s)
				sleep(time.Second)
			}
			s.is("shop", "Scouting Tokens")
			left()
			l.broken = nil
			agree(t, s)
			if shop := l.held(t, "shop"); shop != 0 {
				t.Errorf("shop holds %d tokens, expected none", shop)
			}
		})
	})
	t.Run("nothing changes", func(t *testing.T) {
		bubble(t, func(s *stage) {
			l := &budgetLedger{budget: ledger.Entry{Seq: 3, Text: "{}"}}
			g := begin(s, l)
			for range 5 {
				left := s.control.Own(g)
				agree(t, s)
				left()
			}
			agree(t, s)
			if l.budget.Seq > 4 { // one to write what was read in its own form
				t.Errorf("the budget was written %d times, expected once at most", l.budget.Seq-3)
			}
		})
	})
}
