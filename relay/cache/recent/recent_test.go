package recent

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestUpdates: a subscription knows which of the last updates concern it, like a model that keeps them
// all.
func TestUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var updates Updates[struct{}]
		mask, gen := updates.Fresh(), uint64(0)
		var concerned []uint64 // generations
		gens := []uint64{0}
		for range rapid.IntRange(0, 60).Draw(t, "updates") {
			gen += rapid.Uint64Range(1, 3).Draw(t, "changes")
			has := rapid.Bool().Draw(t, "concerned")
			if has {
				mask.Add(updates.Next())
				mask.Add(updates.Next())
				concerned = append(concerned, gen)
			}
			updates.Add(Update[struct{}]{Gen: gen})
			newest, number := updates.Newest()
			if newest.Gen != gen || mask.Has(number) != has || mask.HasNewest(number) != has {
				t.Fatalf("the newest is %d with generation %d, expected %d; it is in the mask %t, expected %t", number, newest.Gen, gen, mask.Has(number), has)
			}
			gens = append(gens, gen)
		}
		from := rapid.SampledFrom(gens).Draw(t, "from")
		to := rapid.SampledFrom(gens).Draw(t, "to")
		var got, want []uint64
		updates.Each(&mask, from, to, func(u *Update[struct{}]) bool {
			got = append(got, u.Gen)
			return true
		})
		known := gens[max(1, len(gens)-Remembered):]
		for _, g := range concerned {
			if g > from && g <= to && slices.Contains(known, g) {
				want = append(want, g)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("updates %v, expected %v of %v", got, want, concerned)
		}
		for number := range uint64(len(gens) + 1) {
			before, gen, ok := updates.Span(number)
			is := number > 0 && number < uint64(len(gens)) && slices.Contains(known, gens[number])
			if ok != is || is && (gen != gens[number] || before != gens[number-1] && !(before == 0 && gens[number] == known[0])) {
				t.Fatalf("update %d: generations %d to %d, %t; the generations are %v", number, before, gen, ok, gens)
			}
		}
	})
}

// TestVersions: the newest versions are remembered with the generations that the table reached by them.
func TestVersions(t *testing.T) {
	var v Versions
	for i, text := range []string{"", "v1", "v2", "v2", "v1"} {
		v.Add(text, uint64(i))
	}
	for text, want := range map[string]uint64{"v1": 4, "v2": 3, "": 0, "v3": 0} {
		if gen, ok := v.Reached(text); gen != want || ok != (want > 0) {
			t.Errorf("%q: generation %d, %t; expected %d", text, gen, ok, want)
		}
	}
	if got := v.Since(1, 4); !slices.Equal(got, []string{"v2", "v1"}) {
		t.Errorf("versions %q", got)
	}
	for gen, want := range []string{"", "v1", "v1", "v2", "v1", "v1"} {
		if got := v.At(uint64(gen)); got != want {
			t.Errorf("at generation %d: %q, expected %q", gen, got, want)
		}
	}
	for i := range 2 * MaxVersions {
		v.Add(fmt.Sprint(i), uint64(i))
	}
	if len(v) != MaxVersions || v.Newest() != fmt.Sprint(2*MaxVersions-1) || Versions(nil).Newest() != "" {
		t.Errorf("%d versions are remembered, the newest is %q", len(v), v.Newest())
	}
}
