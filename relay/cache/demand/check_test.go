package demand

import (
	"strings"
	"testing"
	"time"
)

// TestCheckFindsDamage: the check reports a broken demand.
func TestCheckFindsDamage(t *testing.T) {
	type demand = Demand[int]
	for want, damage := range map[string]func(*demand){
		"no stream will request it": func(d *demand) { clear(d.streams[0].changes) },
		"listed as unanswered":      func(d *demand) { d.streams[0].answered, d.streams[0].asked = 9, 9 },
		"until":                     func(d *demand) { d.interests["a"].expires = time.Unix(1, 0) },
		"names linger":              func(d *demand) { d.lingering++ },
		"names were shed":           func(d *demand) { d.shed++ },
		"interests take":            func(d *demand) { d.bytes++ },
		"is asked for as":           func(d *demand) { d.interests["a"].spelled = "b" },
		"bytes of a request":        func(d *demand) { d.interests["a"].size++ },
		"but is not wanted":         func(d *demand) { delete(d.interests, "a") },
		"the wildcard is wanted":    func(d *demand) { d.streams[0].wildcardAsked = true },
		"names with":                func(d *demand) { d.streams[0].wanted++ },
		"and 7 are counted":         func(d *demand) { d.streams[0].size = 7 },
		"answered 9":                func(d *demand) { d.streams[0].answered = 9 },
	} {
		t.Run(want, func(t *testing.T) {
			d := New[int](Config{Route: func(string) int { return 0 }, Bounds: []int{0}, EmptyGlob: func(string) bool { return false }})
			w := d.Begin("a", "")
			d.Ask(w, "a", true)
			d.Join(w, 1)
			if wrong := d.Check(); len(wrong) > 0 {
				t.Fatal(wrong)
			}
			damage(&d)
			if wrong := d.Check(); !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Fatalf("%q does not say %q", wrong, want)
			}
		})
	}
}
