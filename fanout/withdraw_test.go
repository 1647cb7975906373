package fanout

import "testing"

// TestRemovalsAfterTheWildcardAgain: E2, B35: a client that asks for everything again
// gets all of it at once, but what its routes still lead to goes after the routes.
func TestRemovalsAfterTheWildcardAgain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s, unanswered := moveAway(t, w, true)
		w.change(rds, nil, route("r", "x"))
		w.change(cds, []string{"y"})
		s.Quiet(t, short)
		s.Subscribe(cds, "*")
		s.Ack(has(t, s.RecvType(t, cds), "x"))
		s.Quiet(t, short)
		s.Ack(unanswered)
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"y"}))
		s.Quiet(t, short)
	})
}
