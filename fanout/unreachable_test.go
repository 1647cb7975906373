package fanout

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestNothingToAnswerIsNoAnswer: K15, B39: a SotW client that returns with exactly the current
// content of a type is sent nothing of it. If nothing is known of another type and the origin is
// away, its stream has had no answer, and ends so that the client can fall back. A stream stays if
// its client wants nothing else.
func TestNothingToAnswerIsNoAnswer(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.OriginTimeout = 3 * short })
		first := w.open(false)
		first.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1))
		f := has(t, first.Recv(t), "a")
		first.Ack(f)
		w.origin().Down(errors.New("gone"))

		served, lost := w.open(false), w.open(false)
		served.Resume(cds, f.Version, nil)
		lost.Resume(cds, f.Version, nil)
		lost.Subscribe(eds, "a")
		refusedWith(t, lost, codes.Unavailable, "is unreachable")
		served.Quiet(t, short)
		served.Subscribe(cds, "a")
		has(t, served.Recv(t), "a")
	})
}

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
		refusedWith(t, lost, codes.Unavailable, "is unreachable")
	})
}
