package demand

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestSubscribers compares the set with a map, whatever is added and removed.
func TestSubscribers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := make([]*int, 4)
		for i := range all {
			all[i] = &i
		}
		of := rapid.SampledFrom(all)
		sets, want := [2]Subscribers[*int]{}, [2]map[*int]struct{}{{}, {}}
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
		union := sets[0].With(&sets[1])
		for i, c := range []struct {
			set  *Subscribers[*int]
			want map[*int]struct{}
		}{{&sets[0], want[0]}, {&sets[1], want[1]}, {&union, both}} {
			got := make(map[*int]struct{})
			for sub := range c.set.All() {
				got[sub] = struct{}{}
			}
			if !maps.Equal(got, c.want) || c.set.Len() != len(c.want) {
				t.Fatalf("set %d has %d subscriptions and counts %d, expected %d", i, len(got), c.set.Len(), len(c.want))
			}
			for _, sub := range all {
				if _, ok := c.want[sub]; c.set.Has(sub) != ok {
					t.Fatalf("set %d has subscription %d: %t", i, *sub, !ok)
				}
			}
		}
	})
}
