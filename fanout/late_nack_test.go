package fanout

import (
	"testing"
	"unsafe"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// B28, B31: a NACK of an older response that comes while the type is held after a NACK, and
// a note is not answered, changes nothing: what repairs it is sent once, and its ACK counts.
func TestLateNackWhileHeld(t *testing.T) {
	for name, nacksLate := range map[string]bool{"late NACK": true, "none": false} {
		t.Run(name, func(t *testing.T) { lateNackWhileHeld(t, nacksLate) })
	}
}

func lateNackWhileHeld(t *testing.T, nacksLate bool) {
	both(t, func(t *testing.T, delta bool) {
		w, s, late := heldAfterTwo(t, delta)
		w.refuse(eds, "d", resource.CodeUnavailable)
		hears(t, s.Recv(t), "d", resource.CodeUnavailable) // not answered
		if nacksLate {
			s.Nack(late, "no either")
		}
		s.Quiet(t, 11*short)
		w.change(eds, nil, endpoints("c", 2))
		s.Ack(has(t, s.Recv(t), "b", "c"))
		s.Quiet(t, short)
		isSynced(t, w)
	})
}

// B28, B31: the same while the repair is not answered: it repeats what the older response
// held, so its ACK says that the client accepts that, too.
func TestLateNackOfWhatIsRepeated(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w, s, late := heldAfterTwo(t, delta)
		w.change(eds, nil, endpoints("c", 2))
		repair := has(t, s.Recv(t), "b", "c")
		s.Nack(late, "no either")
		s.Ack(repair)
		s.Quiet(t, short)
		isSynced(t, w)
		w.change(eds, nil, endpoints("d", 1))
		has(t, s.Recv(t), "d")
	})
}

// heldAfterTwo returns a client that has accepted a, left b unanswered, which is returned,
// too, and rejected c.
func heldAfterTwo(t *testing.T, delta bool) (*world, *xdstest.Stream, *xdstest.Frame) {
	w := newWorld(t, func(c *Config) { c.AckTimeout = 10 * short })
	s := w.open(delta)
	s.Subscribe(eds, "a", "b", "c", "d")
	w.asked(eds, "a", "b", "c", "d")
	w.change(eds, nil, endpoints("a", 1))
	s.Ack(has(t, s.Recv(t), "a"))
	w.change(eds, nil, endpoints("b", 1))
	late := has(t, s.Recv(t), "b")
	w.change(eds, nil, endpoints("c", 1))
	s.Quiet(t, short)
	s.Nack(has(t, s.Recv(t), "c"), "no") // after the wait
	w.settled(eds, Nacked)
	return w, s, late
}

func isSynced(t *testing.T, w *world) {
	t.Helper()
	if i := w.info(eds); i.State != Synced || i.Sent != i.Acked {
		t.Errorf("after the ACK of the repair the client is %s, sent %d, acked %d", i.State, i.Sent, i.Acked)
	}
}

// TestStateSize holds what each client costs for each of its types, in bytes.
func TestStateSize(t *testing.T) {
	if got := unsafe.Sizeof(typeState{}); got > 288 {
		t.Errorf("the state of a type takes %d bytes", got)
	}
	if got := unsafe.Sizeof(stream{}); got > 352 { // a size of Go
		t.Errorf("a stream takes %d bytes", got)
	}
}
