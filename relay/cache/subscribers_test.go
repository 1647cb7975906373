package cache

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestSubscribers compares the set with a map, whatever is added and removed.
func TestSubscribers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := make([]*Subscription, 4)
		for i := range all {
			all[i] = &Subscription{id: uint64(i)}
		}
		of := rapid.SampledFrom(all)
		sets, want := [2]subscribers{}, [2]map[*Subscription]struct{}{{}, {}}
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			i, sub := rapid.IntRange(0, 1).Draw(t, "set"), of.Draw(t, "subscription")
			if rapid.Bool().Draw(t, "add") {
				sets[i].add(sub)
				want[i][sub] = struct{}{}
			} else {
				sets[i].remove(sub)
				delete(want[i], sub)
			}
		}
		both := maps.Clone(want[0])
		maps.Copy(both, want[1])
		union := sets[0].with(&sets[1])
		for i, c := range []struct {
			set  *subscribers
			want map[*Subscription]struct{}
		}{{&sets[0], want[0]}, {&sets[1], want[1]}, {&union, both}} {
			got := make(map[*Subscription]struct{})
			for sub := range c.set.all() {
				got[sub] = struct{}{}
			}
			if !maps.Equal(got, c.want) || c.set.len() != len(c.want) {
				t.Fatalf("set %d has %d subscriptions and counts %d, expected %d", i, len(got), c.set.len(), len(c.want))
			}
			for _, sub := range all {
				if _, ok := c.want[sub]; c.set.has(sub) != ok {
					t.Fatalf("set %d has subscription %d: %t", i, sub.id, !ok)
				}
			}
		}
	})
}
