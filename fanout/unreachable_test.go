package fanout

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestNoStateAndNoOriginOfTheWildcard: K15: a client that asks only for everything of a type, of
// which nothing is known, can fall back, too.
func TestNoStateAndNoOriginOfTheWildcard(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.OriginTimeout = 3 * short })
		known := w.open(delta)
		known.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.origin().Down(errors.New("gone"))
		lost := w.open(delta)
		lost.Subscribe(cds)
		lost.Quiet(t, short)
		refusedWith(t, lost, codes.Unavailable, "cannot be reached")
	})
}
