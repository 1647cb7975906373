package resource

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// find returns the places at which p finds names in list, -1 for those that it does not find.
func find(p *Places, list, names []string) (places []int, compared int) {
	for _, n := range names {
		place, ok := p.Seek(len(list), func(i int) bool { compared++; return list[i] == n })
		if !ok {
			place = -1
		}
		places = append(places, place)
	}
	return places, compared
}

// TestPlaces: what was added, removed or moved is passed over, and the rest is found.
func TestPlaces(t *testing.T) {
	many := func(from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, string(rune('a'+i/26))+string(rune('a'+i%26)))
		}
		return names
	}
	all := many(0, 400)
	for name, c := range map[string]struct {
		names   []string
		missing int // names that are not found
	}{
		"the same":           {all, 0},
		"one added":          {slices.Insert(slices.Clone(all), 7, "new"), 1},
		"some added":         {slices.Insert(slices.Clone(all), 7, "new", "newer", "newest", "and", "more", "of", "them"), 7},
		"one removed":        {slices.Delete(slices.Clone(all), 7, 8), 0},
		"many removed":       {slices.Delete(slices.Clone(all), 7, 107), 128},
		"one moved to later": {slices.Concat(many(0, 7), many(8, 200), many(7, 8), many(200, 400)), 1},
		"one moved to front": {slices.Concat(many(200, 201), many(0, 200), many(201, 400)), 1},
		"two exchanged":      {slices.Concat(many(0, 7), many(200, 201), many(8, 200), many(7, 8), many(201, 400)), 2},
		"another half":       {slices.Concat(many(200, 400), many(0, 200)), 200},
		"empty":              {nil, 0},
	} {
		var p Places
		places, compared := find(&p, all, c.names)
		missing := 0
		for _, at := range places {
			if at < 0 {
				missing++
			}
		}
		if missing != c.missing || p.Lost() || compared > 8*(len(c.names)+1) {
			t.Errorf("%s: %d of %d names are not found, expected %d; %d comparisons", name, missing, len(c.names), c.missing, compared)
		}
	}
	other := many(0, 400)
	slices.Reverse(other)
	var p Places
	if _, compared := find(&p, all, other); !p.Lost() || compared > 8*fewMissed {
		t.Errorf("another order: it is recognized %t, with %d comparisons", p.Lost(), compared)
	}
}

// TestPlacesAreRight: each place that is found has the name, and is later than those before, and all is
// found where the order is the same.
func TestPlacesAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"})
		list := rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "list")
		names := rapid.SliceOf(name).Draw(t, "names")
		places, compared := find(new(Places), list, names)
		last := -1
		for i, at := range places {
			if at >= 0 && (at <= last || list[at] != names[i]) {
				t.Fatalf("%q is at %d after %d", names[i], at, last)
			}
			last = max(last, at)
		}
		if slices.Equal(list, names) && slices.Contains(places, -1) || compared > 8*(len(names)+1) {
			t.Fatalf("%v, with %d comparisons", places, compared)
		}
	})
}
