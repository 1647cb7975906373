package robust

import (
	"slices"
	"testing"
	"time"
)

// TestPlan: a seed gives one plan, in which every fault has its turn, and no two that
// exclude each other.
func TestPlan(t *testing.T) {
	for _, cfg := range []Config{{Seed: 5, Nodes: 3, Keys: 2, Tier: true}, {Seed: 5, Nodes: 2, Keys: 1}, {Seed: 6, Nodes: 4, Keys: 5, Tier: true, For: time.Hour}, {Seed: 7, Nodes: 3, Keys: 2, Tier: true, Cluster: true}} {
		p, again := newPlan(cfg), newPlan(cfg)
		turns := make(map[string]int)
		for range 2 * len(faults) {
			r := p.next()
			if other := again.next(); r.String() != other.String() || r.dwell != other.dwell {
				t.Fatalf("one seed, two rounds: %s, %s", r, other)
			}
			for i, f := range r.faults {
				turns[f.name]++
				if !f.in.has(cfg) {
					t.Errorf("%q cannot happen in %+v", f.name, cfg)
				}
				if f.one != (f.node >= 0) || f.node >= cfg.Nodes {
					t.Errorf("%q is at node %d", f.name, f.node)
				}
				if len(r.faults) > 1 && f.alone() {
					t.Errorf("%q comes with another", f.name)
				}
				if i > 0 && f.area == r.faults[0].area {
					t.Errorf("two faults of %s at a time", f.area)
				}
			}
		}
		for _, f := range faults {
			if turns[f.name] == 0 && f.in.has(cfg) {
				t.Errorf("%q never had its turn", f.name)
			}
		}
	}
	if first, other := newPlan(Config{Seed: 1, Nodes: 3, Keys: 1}), newPlan(Config{Seed: 2, Nodes: 3, Keys: 1}); slices.Equal(texts(first), texts(other)) {
		t.Error("two seeds give the same plan")
	}
}

func texts(p *plan) (rounds []string) {
	for range 10 {
		rounds = append(rounds, p.next().String())
	}
	return rounds
}

// TestBears: what clients must not notice is known of faults alone and together.
func TestBears(t *testing.T) {
	of := func(names ...string) (r round) {
		for _, f := range faults {
			if slices.Contains(names, f.name) {
				r.faults = append(r.faults, chosen{fault: f})
			}
		}
		if len(r.faults) != len(names) {
			t.Fatalf("not all of %q exist", names)
		}
		return r
	}
	for _, test := range []struct {
		round round
		tier  bool
		want  bool
	}{
		{of("kill a node"), false, true},
		{of("pause a node"), true, false},
		{of("cut a node from the origin"), true, true},
		{of("cut a node from the origin"), false, false},
		{of("kill Redis", "cut all peers"), true, true},
		{of("kill Redis", "cut a node from the origin"), true, false},
		{of("cut all from the origin"), true, false},
	} {
		if got := test.round.bears(test.tier); got != test.want {
			t.Errorf("%s (tier: %t): bears = %t", test.round, test.tier, got)
		}
	}
}
