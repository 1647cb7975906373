package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/shard"
)

var usual = Limits{Headroom: 10, Refuse: 50, Shed: 10}

func limits(t *rapid.T) Limits {
	l := Limits{Headroom: rapid.IntRange(1, 200).Draw(t, "headroom"), Shed: rapid.IntRange(1, 100).Draw(t, "shed")}
	l.Refuse = l.Headroom + rapid.IntRange(1, 200).Draw(t, "refuse")
	return l
}

func tier(counts ...int) (all []shard.Member) {
	for i, n := range counts {
		all = append(all, shard.Member{Name: fmt.Sprint(i), Status: shard.Status{Clients: n}})
	}
	return all
}

// TestShare: a node keeps ⌈clients / nodes × 1.1⌉.
func TestShare(t *testing.T) {
	is := func(clients int, s shard.Status) shard.Member {
		s.Clients = clients
		return shard.Member{Name: "other", Status: s}
	}
	for i, tc := range []struct {
		members []shard.Member
		clients int // of node 0
		want    Share
		surplus int
	}{
		{tier(0), 1000, Share{Nodes: 1, Clients: 1000, Keep: 1100, Most: 1500}, 0},
		{tier(0, 0), 1000, Share{Nodes: 2, Clients: 1000, Keep: 550, Most: 750, Room: 550}, 450},
		{tier(5, 500, 500), 1000, Share{Nodes: 3, Clients: 2000, Keep: 734, Most: 1000, Others: 1000, Room: 468}, 266},
		{tier(0, 0), 10, Share{Nodes: 2, Clients: 10, Keep: 6, Most: few, Room: 6}, 4},
		// Who ends or is cut off takes nobody; the clients of the former are about to come.
		{append(tier(0), is(500, shard.Status{Draining: true})), 1000, Share{Nodes: 1, Clients: 1500, Keep: 1650, Most: 2250, Others: 500}, 0},
		{append(tier(0), is(0, shard.Status{Cut: true})), 1000, Share{Nodes: 1, Clients: 1000, Keep: 1100, Most: 1500}, 0},
		// Not among the members itself, since nobody has heard of it yet.
		{[]shard.Member{is(0, shard.Status{})}, 1000, Share{Nodes: 2, Clients: 1000, Keep: 550, Most: 750, Room: 550}, 450},
	} {
		got := ShareOf(tc.members, "0", tc.clients, usual)
		if got != tc.want || got.Surplus(tc.clients) != tc.surplus || got.Full() != (got.Room > 0) {
			t.Errorf("case %d: %+v with a surplus of %d, expected %+v with %d", i, got, got.Surplus(tc.clients), tc.want, tc.surplus)
		}
	}
}

// TestSurplusFits: nobody goes below its share, nor to a node that would have to send
// them on, and somebody who has too many finds room elsewhere.
func TestSurplusFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 20_000), 1, 7).Draw(t, "clients")
		l := limits(t)
		total := 0
		for _, n := range counts {
			total += n
		}
		for i, n := range counts {
			s := ShareOf(tier(counts...), fmt.Sprint(i), n, l)
			left := n - s.Surplus(n)
			if s.Surplus(n) > 0 && left*len(counts) < total {
				t.Fatalf("%d is left to node %d of %v", left, i, counts)
			}
			if n > s.Keep && s.Surplus(n) == 0 && s.Room > 0 {
				t.Fatalf("node %d keeps %d of %v", i, n, counts)
			}
			if s.Keep > s.Most {
				t.Fatalf("node %d keeps %d and takes %d", i, s.Keep, s.Most)
			}
		}
	})
}

// TestEven: however clients are spread, nodes that send their surplus away end up with
// what they keep, whoever takes the clients; it takes minutes and not seconds, and
// ends.
func TestEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 5_000), 2, 5).Draw(t, "clients")
		l := limits(t)
		paces := make([]Pace, len(counts))
		told := tier(counts...)
		random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		const step = 10 * time.Second
		for second := 0; second < 24*3600; second += 10 {
			for i, n := range counts {
				told[i].Clients = n
			}
			settled := true
			for i := range counts {
				s := ShareOf(told, told[i].Name, counts[i], l)
				settled = settled && s.Surplus(counts[i]) == 0
				n := paces[i].Due(s, counts[i], l, step, random.Float64())
				if limit := max(s.Surplus(counts[i])*l.Shed/100, 1) + 1; n > limit {
					t.Fatalf("%d go at once, of a surplus of %d", n, s.Surplus(counts[i]))
				}
				if n == 0 {
					continue
				}
				counts[i] -= n
				// They come to any of the others: to the emptiest, or back by chance.
				to := slices.Index(counts, slices.Min(counts))
				if second%3 == 0 {
					to = (i + 1) % len(counts)
				}
				counts[to] += n
			}
			if settled {
				return
			}
		}
		t.Fatalf("after a day there are %v", counts)
	})
}

// TestPace: in a minute a tenth of the surplus goes, and of a small one still one.
func TestPace(t *testing.T) {
	for _, tc := range []struct{ here, there, want int }{
		{2000, 0, 90}, // of 900
		{12, 0, 1},
		{100, 100, 0},
	} {
		var p Pace
		sent := 0
		for range 60 {
			n := p.Due(ShareOf(tier(0, tc.there+sent), "0", tc.here-sent, usual), tc.here-sent, usual, time.Second, 0.5)
			sent += n
		}
		if sent < tc.want*9/10 || sent > tc.want {
			t.Errorf("of %d and %d clients, %d were sent away in a minute, expected %d", tc.here, tc.there, sent, tc.want)
		}
	}
}

// TestNothingHeard: where the others say nothing new, whatever becomes of those who
// were sent away, no more go in ten minutes than in one.
func TestNothingHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		here, there := rapid.IntRange(0, 10_000).Draw(t, "here"), rapid.IntRange(0, 10_000).Draw(t, "there")
		l := limits(t)
		most := max(ShareOf(tier(0, there), "0", here, l).Surplus(here)*l.Shed/100, 1) + 1
		var p Pace
		sent := 0
		for range rapid.IntRange(1, 600).Draw(t, "seconds") {
			if sent += p.Due(ShareOf(tier(0, there), "0", here-sent, l), here-sent, l, time.Second, 0.5); sent > most {
				t.Fatalf("%d went, expected %d at most", sent, most)
			}
		}
	})
}

// TestCalm: who takes clients is the same for as long as nobody comes, goes, starts
// anew, drains or is cut off; numbers of clients do not matter.
func TestCalm(t *testing.T) {
	now := time.Now()
	var c Calm
	look := func(after time.Duration, members ...shard.Member) time.Duration {
		return c.Since(members, now.Add(after)).Sub(now)
	}
	a := shard.Member{Name: "a", Incarnation: "1"}
	b, again, draining, cut, busy := a, a, a, a, a
	b.Name, again.Incarnation, draining.Draining, cut.Cut, busy.Clients = "b", "2", true, true, 5
	for i, tc := range []struct {
		members []shard.Member
		changed bool
	}{
		{nil, true}, {nil, false}, {[]shard.Member{a}, true}, {[]shard.Member{busy}, false}, {[]shard.Member{a, b}, true},
		{[]shard.Member{b, a}, false}, {[]shard.Member{again, b}, true}, {[]shard.Member{again, b}, false},
		{[]shard.Member{draining, b}, true}, {[]shard.Member{b}, false}, {[]shard.Member{a, b}, true}, {[]shard.Member{cut, b}, true},
	} {
		at := time.Duration(i+1) * time.Second
		if got := look(at, tc.members...); (got == at) != tc.changed {
			t.Errorf("step %d: since %v at %v", i, got, at)
		}
	}
}

// TestNotable: small numbers and small changes can wait.
func TestNotable(t *testing.T) {
	for _, tc := range []struct {
		told, now int
		want      bool
	}{{0, 5, false}, {0, 6, true}, {6, 0, true}, {1000, 1010, false}, {1000, 1011, true}, {1000, 989, true}} {
		if got := Notable(tc.told, tc.now); got != tc.want {
			t.Errorf("from %d to %d: %v", tc.told, tc.now, got)
		}
	}
}
