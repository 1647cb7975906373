package fanout

import "testing"

// TestBodiesAreKept: the body of a client that has a subscription alone is kept until it was sent; that
// of several clients is kept, and the next client with the same subscription is sent it, too.
func TestBodiesAreKept(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		held := func(want bool) {
			t.Helper()
			if bytes := w.srv.bodies.Bytes(); bytes > 0 != want {
				t.Errorf("bodies of %d bytes are kept", bytes)
			}
		}
		one := w.open(delta)
		one.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		one.Ack(has(t, one.RecvType(t, eds), "a"))
		held(false)
		w.change(eds, nil, endpoints("a", 2))
		one.Ack(has(t, one.RecvType(t, eds), "a"))
		held(false)
		for range 2 {
			other := w.open(delta)
			other.Subscribe(eds, "a")
			other.Ack(has(t, other.RecvType(t, eds), "a"))
		}
		held(true)
		built := w.srv.bodies.Built()
		last := w.open(delta)
		last.Subscribe(eds, "a")
		last.Ack(has(t, last.RecvType(t, eds), "a"))
		if n := w.srv.bodies.Built() - built; n > 0 {
			t.Errorf("%d bodies were built for one more client", n)
		}
	})
}
