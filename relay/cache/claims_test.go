package cache

import (
	"testing"

	"xdsrelay/relay/resource"
)

// TestClaimsAgainstSilence: C12, K14: a stream on which the control plane has not said a word may
// be dead without a notice, so its silence takes nothing from a client that comes with what this
// node never knew. Who waits hears that there is nothing. A control plane that takes part is
// believed, and so is its answer.
func TestClaimsAgainstSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(w *world)
		open          bool
	}{
		"not a word":          {nil, nil, true},
		"it takes part":       {func(w *world) { w.feed.Up() }, nil, false},
		"by silence alone":    {func(w *world) { w.feed.Up(); w.feed.Mute(true) }, nil, true},
		"it answers later":    {nil, func(w *world) { w.feed.Up(); w.apply(endpoints) }, false},
		"it answered earlier": {func(w *world) { w.apply(endpoints) }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			c := w.client(endpoints, false, "a")
			w.feed.TakeDemand(true, true)
			if tc.before != nil {
				tc.before(w)
			}
			w.feed.Absent(endpoints, []string{"a"})
			if tc.after != nil {
				tc.after(w)
			}
			expectSees(t, c, "-a")
			if gone, rest := c.table.Gone(&c.w, []resource.Held{{Name: "a", Version: "1"}}); tc.open != (gone == nil) || tc.open != (len(rest) == 1) {
				t.Errorf("%v have gone, and %v are open; expected them to be open: %t", gone, rest, tc.open)
			}
		})
	}
}
