package fanout

import (
	"testing"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// B20, B23, B27, B28, B31, B32, B33: a wildcard gets everything, then what
// changed (D15), and what is gone (D3).
func TestWildcard(t *testing.T) {
	each(t, cds, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t)
		s := w.conn.Open(v)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		w.serve("v2", cds, cluster("a", 2), cluster("b", 1))
		if v.Delta { // B28
			s.Ack(has(t, s.Recv(t), "a"))
		} else { // B27
			s.Ack(has(t, s.Recv(t), "a", "b"))
		}
		w.serve("v3", cds, cluster("a", 2), cluster("b", 1)) // B31, D15: nothing new
		s.Quiet(t, short)
		w.serve("v4", cds)
		if v.Delta { // B33, D3
			hasRemoved(t, s.Recv(t), []string{"a", "b"})
		} else { // B32: the last one removed makes an empty frame
			has(t, s.Recv(t))
		}
	})
}

// B17: a SotW request replaces the set; what was dropped is no news any more.
func TestSotWReplacesNames(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		s.Unsubscribe(eds, "b")
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("b", 2))
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 2))
		has(t, s.Recv(t), "a")
	})
}

// B18, B19: a name that comes back is sent though nothing changed; an empty
// list after names means nothing, never everything, and is sent nothing (B4). A
// name without a resource is sent when there is one (B26), a full-state type as
// a whole (B27).
func TestNamesThatComeBack(t *testing.T) {
	for _, url := range []string{eds, cds} { // cds has the legacy wildcard
		both(t, func(t *testing.T, delta bool) {
			w := newWorld(t)
			s := w.open(delta)
			s.Subscribe(url, "a")
			w.asked(url, "a")
			w.change(url, nil, xdstest.Synthetic(url, "a", 1))
			f := has(t, s.Recv(t), "a")
			s.Ack(f)
			s.Unsubscribe(url, "a")
			s.Quiet(t, short)
			w.change(url, nil, xdstest.Synthetic(url, "a", 2)) // B4: it lingers upstream, but nobody listens
			s.Quiet(t, short)
			s.Subscribe(url, "a")
			s.Ack(has(t, s.Recv(t), "a"))
			s.Subscribe(url, "b")
			s.Quiet(t, short)
			w.change(url, nil, xdstest.Synthetic(url, "b", 1)) // B26
			if !delta && url == cds {                          // B27
				has(t, s.Recv(t), "a", "b")
			} else {
				has(t, s.Recv(t), "b")
			}
		})
	}
}

// B19: the empty list counts before there was any answer, and without a nonce.
func TestEmptyListBeforeTheFirstAnswer(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(rds, "r1")
		w.asked(rds, "r1")
		s.Unsubscribe(rds, "r1")
		s.Subscribe(cds) // shows that the request before was taken in
		w.asked(cds, "*")
		w.change(rds, nil, route("r1", "c"))
		s.QuietType(t, rds, short)
		s.Subscribe(rds, "r2")
		xdstest.Eventually(t, "r2 to be asked", func() bool { return len(w.origin().Missing(resource.TypeOf(rds), []string{"r2"})) == 1 })
		w.change(rds, nil, route("r2", "c"))
		has(t, s.RecvType(t, rds), "r2")
	})
}

// B20: the wildcard holds as long as no request had names, also on ACKs.
func TestLegacyWildcardHolds(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(lds)
		w.asked(lds, "*")
		for v := range 3 {
			w.serve("", lds, listener("a", v))
			s.Ack(has(t, s.Recv(t), "a"))
		}
	})
}

// B21: an empty first request of a type without wildcard is no subscription.
func TestEmptyFirstRequestIsNothing(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.asked(eds)
		s.QuietType(t, eds, short)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		has(t, s.RecvType(t, eds), "a")
	})
}

// B22: on SotW "*" is a name that can be joined and left.
func TestWildcardAsAName(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(cds)
		w.asked(cds, "*")
		all := func(v int) { w.serve("", cds, cluster("a", v), cluster("b", 1), cluster("c", 1)) }
		all(1)
		s.Ack(has(t, s.Recv(t), "a", "b", "c"))
		s.Subscribe(cds, "*", "a")
		s.Ack(has(t, s.Recv(t), "a", "b", "c")) // B18: "a" is new
		s.Unsubscribe(cds, "*")
		w.wildcards(cds, 0)
		s.Quiet(t, short)
		w.serve("", cds, cluster("a", 1), cluster("b", 2), cluster("c", 1))
		s.Quiet(t, short)
		s.Unsubscribe(cds, "a")
		s.Quiet(t, short)
		all(3)
		s.Quiet(t, short)
	})
}

// B23: only leaving "*" ends a delta wildcard, and then for good.
func TestDeltaWildcardIsLeftForGood(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		s.Subscribe(cds, "a")
		s.Ack(has(t, s.Recv(t), "a")) // B35
		w.serve("", cds, cluster("a", 1), cluster("b", 2))
		s.Ack(has(t, s.Recv(t), "b"))
		s.Unsubscribe(cds, "*")
		w.wildcards(cds, 0)
		w.serve("", cds, cluster("a", 1), cluster("b", 3))
		s.Quiet(t, short)

		s.Subscribe(cds, "*") // joined again: all of it, "a" too
		s.Ack(has(t, s.Recv(t), "a", "b"))

		both := w.open(true) // in one message subscribe comes first
		both.Resume(cds, "", nil, "x")
		both.Unsubscribe(cds, "x")
		both.Send(&deltaRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}, ResourceNamesUnsubscribe: []string{"*"}})
		w.serve("", cds, cluster("a", 1), cluster("b", 4))
		has(t, s.Recv(t), "b")
		both.Quiet(t, short)
	})
}

// B23: a first delta message that only unsubscribes is a wildcard on a type that has
// one, unless it leaves "*" itself; on any other type it subscribes to nothing.
func TestFirstDeltaMessageUnsubscribes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Unsubscribe(cds, "gone")
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		s.Subscribe(cds, "a") // names add to the wildcard
		s.Ack(has(t, s.Recv(t), "a"))
		w.serve("", cds, cluster("a", 1), cluster("b", 2))
		s.Ack(has(t, s.Recv(t), "b"))
		s.Unsubscribe(cds, "*")
		w.wildcards(cds, 0)
		w.serve("", cds, cluster("a", 1), cluster("b", 3))
		s.Quiet(t, short)

		left := w.open(true)
		left.Unsubscribe(cds, "gone", "*")
		none := w.open(true)
		none.Unsubscribe(eds, "gone")
		left.Quiet(t, short)
		none.Quiet(t, short)
		w.wildcards(cds, 0)
		w.wildcards(eds, 0)
	})
}

// B24, K13: a wildcard is answered as soon as the set is known, even with an
// empty frame, and not before.
func TestEmptyWildcardIsAnswered(t *testing.T) {
	each(t, cds, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t)
		s := w.conn.Open(v)
		s.Subscribe(cds)
		w.asked(cds, "*")
		s.Quiet(t, short) // K13
		w.serve("v1", cds)
		f := has(t, s.Recv(t))
		if f.Nonce == "" || f.Version == "" && !v.Delta { // B5, D7
			t.Fatalf("the empty frame is not complete: %v", f)
		}
		s.Ack(f)
		s.Quiet(t, short)
		late := w.conn.Open(v) // the set is known already
		late.Subscribe(cds)
		has(t, late.Recv(t))
	})
}

// D12, D13: each client sees only its own names, and all that changed with one
// response of the origin in one frame.
func TestOneFrameOfOnesOwn(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		narrow, wide := w.open(delta), w.open(delta)
		narrow.Subscribe(eds, "b")
		wide.Subscribe(eds, "a", "c", "d")
		w.asked(eds, "a", "b", "c", "d")
		for v := range 2 {
			w.change(eds, nil, endpoints("a", v), endpoints("b", v), endpoints("c", v), endpoints("d", v))
			narrow.Ack(has(t, narrow.Recv(t), "b"))
			wide.Ack(has(t, wide.Recv(t), "a", "c", "d"))
		}
		narrow.Quiet(t, short)
		wide.Quiet(t, short)
	})
}
