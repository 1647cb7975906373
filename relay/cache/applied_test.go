package cache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRecentUpdates: a subscription knows which of the last updates concern it, like a model that
// keeps them all.
func TestRecentUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, sub := &Table{}, &Subscription{}
		var concerned []uint64 // generations
		gens := []uint64{0}
		for range rapid.IntRange(0, 60).Draw(t, "updates") {
			for range rapid.Uint64Range(1, 3).Draw(t, "changes") {
				table.store.Next()
			}
			if rapid.Bool().Draw(t, "concerned") {
				sub.updates.add(table.updates.n + 1)
				sub.updates.add(table.updates.n + 1)
				concerned = append(concerned, table.store.Gen())
			}
			table.updates.add(recentUpdate{gen: table.store.Gen()})
			gens = append(gens, table.store.Gen())
		}
		from := rapid.SampledFrom(gens).Draw(t, "from")
		to := rapid.SampledFrom(gens).Draw(t, "to")
		var got, want []uint64
		table.eachUpdateLocked(sub, from, to, func(s *recentUpdate) bool {
			got = append(got, s.gen)
			return true
		})
		known := gens[max(1, len(gens)-remembered):]
		for _, g := range concerned {
			if g > from && g <= to && slices.Contains(known, g) {
				want = append(want, g)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("updates %v, expected %v of %v", got, want, concerned)
		}
	})
}
