package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBudget holds how many keys may start at once, that their number rises with each bake of the same change
// that passes, but not for another change, and that it falls on a failure.
func TestBudget(t *testing.T) {
	l, now := DefaultLimits(), began
	var b Budget
	cut := now
	started := func(want int) {
		t.Helper()
		got := 0
		for i := range 1000 {
			if grant, n := b.Take(&l, fmt.Sprint(i), 3, true, 10_000, cut, now); grant == Given && n == 3 {
				got++
			}
		}
		if got != want || b.Used() != 3*want {
			t.Errorf("%d keys start with %d tokens, expected %d", got, b.Used(), want)
		}
	}
	started(33)
	started(33) // what a key has it keeps
	b.Pass(&l, "0", cut)
	started(333)
	b.Pass(&l, "1", cut.Add(-5*time.Second)) // the same change reached another key before
	started(1000)
	for i := range 1000 {
		b.GiveBack(fmt.Sprint(i))
	}
	cut = cut.Add(11 * time.Second) // of another change
	started(33)
	b.Pass(&l, "0", cut)
	b.Pass(&l, "1", cut)
	b.Pass(&l, "2", cut)
	started(1000)
	b.Failed(&l, "0", now)
	if grant, n := b.Take(&l, "0", 3, true, 10_000, cut, now); grant != Full || n != 0 {
		t.Errorf("%d tokens after a failure", n)
	}
	if grant, n := b.Take(&l, "1", 2, false, 10_000, cut, now); grant != Given || n != 2 {
		t.Error("a key cannot give back tokens")
	}
	now = now.Add(time.Hour)
	started(33) // nobody has renewed the others
	b.Renew("1", now.Add(time.Minute))
	b.expire(now.Add(time.Hour))
	if b.Used() != 3 {
		t.Errorf("%d tokens, expected those that were renewed", b.Used())
	}

	// A tier with few clients.
	b = Budget{}
	if grant, n := b.Take(&l, "a", 5, true, 50, now, now); grant != Given || n != 1 {
		t.Errorf("%d tokens of one", n)
	}
	if grant, _ := b.Take(&l, "b", 1, true, 50, now, now); grant != Full {
		t.Error("a second token of one")
	}
	if grant, _ := b.Take(&l, "c", 0, true, 50, now, now); grant == Given {
		t.Error("no token is given")
	}
}

// TestBreaker holds that it opens after failures within a time, that only new rollouts wait for it,
// and that an order closes it.
func TestBreaker(t *testing.T) {
	l := DefaultLimits()
	var b Budget
	for i := range 4 {
		b.Failed(&l, "a", began.Add(time.Duration(i)*6*time.Minute))
	}
	if b.Open {
		t.Error("it opens after failures with long pauses")
	}
	now := began.Add(19 * time.Minute)
	b.Failed(&l, "a", now)
	b.Failed(&l, "a", now)
	if grant, _ := b.Take(&l, "a", 1, true, 1000, now, now); grant != BreakerOpen || !b.Open {
		t.Error("it does not open")
	}
	if grant, _ := b.Take(&l, "a", 1, false, 1000, now, now); grant != Given {
		t.Error("a rollout that has started waits")
	}
	now = now.Add(24 * time.Hour)
	if grant, _ := b.Take(&l, "b", 1, true, 1000, now, now); grant != BreakerOpen {
		t.Error("it closes by itself")
	}
	b.Reset()
	if grant, _ := b.Take(&l, "b", 1, true, 1000, now, now); grant != Given {
		t.Error("it does not close")
	}
	l.Failures = 0
	for range 100 {
		b.Failed(&l, "a", now)
	}
	if b.Open || len(b.Failures) > MaxFailures {
		t.Error("it opens although it is off, or remembers too much")
	}
}

// TestRandomBudgets holds that keys never hold more tokens than the tier has at its highest level
// since they were given, and that what is given back can be taken.
func TestRandomBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Budget
		l, now, clients := DefaultLimits(), began, rapid.IntRange(1, 5000).Draw(t, "clients")
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		var passed []time.Time // cuts of revisions
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "pause"))
			k, before := key.Draw(t, "key"), b.Used()
			cut := now.Add(-rapid.SampledFrom([]time.Duration{0, 9 * time.Second, time.Minute}).Draw(t, "cut before"))
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				grant, n := b.Take(&l, k, rapid.IntRange(0, 60).Draw(t, "tokens"), rapid.Bool().Draw(t, "starts"), clients, cut, now)
				if b.Used() > max(before, b.Limit(&l, clients, cut)) {
					t.Fatalf("%d tokens of %d", b.Used(), b.Limit(&l, clients, cut))
				}
				if shown := b.Limit(&l, clients, cut); shown > l.Shares[0].Of(clients) && !slices.ContainsFunc(passed, func(at time.Time) bool { return cut.Sub(at) <= wave }) {
					t.Fatalf("%d tokens, and no bake of this change has passed", shown)
				}
				if grant == Given && n < 1 || n != b.Held[k].Count {
					t.Fatalf("%v: %d tokens", grant, n)
				}
			case 2:
				b.Pass(&l, k, cut)
				passed = append(passed, cut)
			case 3:
				b.Failed(&l, k, now)
				passed = nil
			default:
				b.GiveBack(k)
			}
		}
		for _, k := range []string{"a", "b", "c", "d"} {
			b.GiveBack(k)
		}
		if b.Reset(); b.Used() != 0 {
			t.Fatalf("%d tokens are left", b.Used())
		}
		if grant, _ := b.Take(&l, "a", 1, true, clients, now, now); grant != Given {
			t.Fatal("no token although none is held")
		}
	})
}
