package fanout

import (
	"testing"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// B25, B26: what exists is sent without waiting for what does not, which is
// sent when it appears. B27: then with what there was, if the type is one of
// full state.
func TestMissingNamesDelayNothing(t *testing.T) {
	for _, url := range []string{eds, cds} {
		each(t, url, func(t *testing.T, v xdstest.Variant) {
			w := newWorld(t)
			first := w.open(true)
			first.Subscribe(url, "a")
			w.asked(url, "a")
			w.change(url, nil, xdstest.Synthetic(url, "a", 1))
			s := w.conn.Open(v)
			s.Subscribe(url, "a", "missing") // of which nothing is known
			s.Ack(has(t, s.Recv(t), "a"))
			w.asked(url, "a", "missing")
			w.change(url, nil, xdstest.Synthetic(url, "missing", 1))
			if f := s.Recv(t); url == cds && !v.Delta {
				has(t, f, "a", "missing")
			} else {
				has(t, f, "missing")
			}
		})
	}
}

// K13, B25: to a SotW client that may hold what is not known yet, a full state
// without it would read as its removal; it waits.
func TestMissingNamesOfWhoComesBack(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s, back := w.open(false), w.open(false)
		s.Subscribe(cds, "a")
		w.asked(cds, "a")
		w.change(cds, nil, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		back.Resume(cds, "some", nil, "a", "b")
		w.asked(cds, "a", "b")
		back.Quiet(t, short)
		w.change(cds, nil, cluster("b", 1))
		has(t, back.Recv(t), "a", "b")
	})
}

// B34, D5, K13: a delta client is notified promptly of names that do not exist, once, but not
// before that is known. It gets the resource when that appears. A SotW client gets no response.
func TestAbsentNames(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds, "z")
		w.asked(eds, "z")
		s.Quiet(t, short) // K13
		w.absent(eds, "z")
		late := w.open(delta)
		if delta {
			s.Ack(hasRemoved(t, s.Recv(t), []string{"z"}))
			late.Subscribe(eds, "z")
			late.Ack(hasRemoved(t, late.Recv(t), []string{"z"})) // known by now
		} else {
			late.Subscribe(eds, "z")
		}
		w.absent(eds, "z")
		s.Quiet(t, short)
		late.Quiet(t, short)
		w.change(eds, nil, endpoints("z", 1))
		has(t, s.Recv(t), "z")
		has(t, late.Recv(t), "z")
	})
}

// B32, D6: for a type without full state SotW cannot say that a resource is
// gone, and says nothing; a full-state type is sent without it.
func TestSotWRemovals(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(rds, "r", "s")
		w.asked(rds, "r", "s")
		w.change(rds, nil, route("r", "a"), route("s", "a"))
		s.Ack(has(t, s.Recv(t), "r", "s"))
		w.change(rds, []string{"r"})
		s.Quiet(t, short)
		w.change(rds, nil, route("s", "b"))
		s.Ack(has(t, s.Recv(t), "s"))
		s.Subscribe(lds, "x", "y")
		w.asked(lds, "x", "y")
		w.change(lds, nil, listener("x", 1), listener("y", 1))
		s.Ack(has(t, s.Recv(t), "x", "y"))
		w.change(lds, []string{"x"})
		s.Ack(has(t, s.Recv(t), "y"))
		w.change(lds, []string{"y"})
		s.Ack(has(t, s.Recv(t)))
		late := w.open(false)
		late.Subscribe(rds, "r", "s")
		has(t, late.Recv(t), "s")
	})
}

// B33: a removal is sent to the clients that hold or name the resource, and not to others; B29:
// with later changes to it in one entry.
func TestDeltaRemovals(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		byName, byWildcard, other := w.open(true), w.open(true), w.open(true)
		byName.Subscribe(cds, "a")
		other.Subscribe(cds, "b")
		byWildcard.Subscribe(cds)
		w.asked(cds, "*", "a", "b")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		byName.Ack(has(t, byName.Recv(t), "a"))
		other.Ack(has(t, other.Recv(t), "b"))
		byWildcard.Ack(has(t, byWildcard.Recv(t), "a", "b"))
		w.change(cds, []string{"a"})
		byName.Ack(hasRemoved(t, byName.Recv(t), []string{"a"}))
		byWildcard.Ack(hasRemoved(t, byWildcard.Recv(t), []string{"a"}))
		other.Quiet(t, short)
		// B29: removed and created again between two frames is one entry.
		byWildcard.Unsubscribe(cds, "nothing") // B36: an unknown name is nothing
		w.change(cds, nil, cluster("a", 2))
		has(t, byName.Recv(t), "a")
		f := has(t, byWildcard.Recv(t), "a")
		w.change(cds, []string{"a"})
		w.change(cds, nil, cluster("a", 3))
		byWildcard.Ack(f)
		has(t, byWildcard.Recv(t), "a")
	})
}

// B35, B34: a name subscribed again is sent again, as it is, or its absence is.
func TestSubscribedAgain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		f := has(t, s.Recv(t), "a", "b")
		s.Ack(f)
		s.Subscribe(eds, "a")
		g := has(t, s.Recv(t), "a")
		s.Ack(g)
		if was, _ := f.Get("a"); was.Version != g.Resources[0].Version {
			t.Fatalf("sent again as version %q, was %q", g.Resources[0].Version, was.Version)
		}
		w.absent(eds, "b") // known already: no absence by silence
		w.change(eds, []string{"b"})
		s.Ack(hasRemoved(t, s.Recv(t), []string{"b"}))
		s.Subscribe(eds, "b")
		s.Ack(hasRemoved(t, s.Recv(t), []string{"b"})) // B34
		s.Quiet(t, short)
	})
}

// B14, B35: names that a client subscribes to again along with an answer are sent again. A client
// that does so with every ACK is not answered indefinitely, and one that rejects is not sent the
// same again.
func TestSubscribedAgainWithEveryAnswer(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		answer := func(f *xdstest.Frame, nack *statuspb.Status) {
			s.Send(&deltaRequest{TypeUrl: eds, ResponseNonce: f.Nonce, ErrorDetail: nack, ResourceNamesSubscribe: []string{"a"}})
		}
		answer(has(t, s.Recv(t), "a"), nil)
		answer(has(t, s.Recv(t), "a"), nil) // at once: it may have dropped it meanwhile
		s.Quiet(t, 3*short)
		w.change(eds, nil, endpoints("a", 2))
		answer(has(t, s.Recv(t), "a"), nil)
		s.Quiet(t, short)
		f := has(t, s.Recv(t), "a") // after a pause
		answer(f, &statuspb.Status{Code: 3, Message: "no"})
		s.Quiet(t, 3*short)
		w.change(eds, nil, endpoints("a", 3))
		s.Ack(has(t, s.Recv(t), "a"))
		s.Subscribe(eds, "a")
		s.Ack(has(t, s.Recv(t), "a"))
	})
}

// B14: names that wait to be sent again are not sent after a NACK.
func TestRejectedWhileARepetitionWaits(t *testing.T) {
	ts, now := &typeState{}, time.Now()
	a := cache.NewNames([]string{"a"})
	ts.askedAgain(a, accepted, now)
	ts.Force = nil // sent at once
	ts.askedAgain(a, accepted, now)
	if ts.Force != nil || ts.repeat.names.Len() != 1 {
		t.Fatalf("the second time is not put off: %+v, %+v", ts.Force, ts.repeat)
	}
	ts.askedAgain(a, rejected, now)
	if ts.Force != nil || ts.repeat.names.Len() != 0 {
		t.Fatalf("after a NACK: %+v, %+v", ts.Force, ts.repeat)
	}
	ts.askedAgain(a, none, now) // a question by itself
	if ts.Force.Len() != 1 {
		t.Fatal("a question is not answered")
	}
}

// B35: nor is one that states the wildcard with every ACK.
func TestWildcardWithEveryAck(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds, "*")
		w.asked(cds, "*")
		w.change(cds, nil, cluster("a", 1), cluster("b", 1))
		f := has(t, s.Recv(t), "a", "b")
		s.Send(&deltaRequest{TypeUrl: cds, ResponseNonce: f.Nonce, ResourceNamesSubscribe: []string{"*"}})
		s.Quiet(t, short)
		s.Subscribe(cds, "*") // by itself it is a question
		s.Ack(has(t, s.Recv(t), "a", "b"))
	})
}

// B36: a client with the wildcard that drops a name is sent the wildcard's content for it; a client
// without the wildcard is not.
func TestUnsubscribeUnderAWildcard(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(cds, "*", "a", "z")
		w.asked(cds, "*", "a", "z")
		w.serve("v1", cds, cluster("a", 1))
		w.absent(cds, "z")
		for f := s.Recv(t); len(f.Removed) == 0; f = s.Recv(t) {
			s.Ack(f)
			has(t, f, "a")
		}
		s.Unsubscribe(cds, "a") // while a response is in flight, which nobody answers
		named := w.open(true)
		named.Subscribe(cds, "a")
		named.Ack(has(t, named.Recv(t), "a"))
		named.Unsubscribe(cds, "a")
		named.Quiet(t, short)

		fresh := w.open(true)
		fresh.Subscribe(cds, "*", "a", "z")
		fresh.Ack(hasRemoved(t, fresh.Recv(t), []string{"z"}, "a"))
		fresh.Unsubscribe(cds, "a")
		fresh.Ack(has(t, fresh.Recv(t), "a"))
		fresh.Unsubscribe(cds, "z")
		fresh.Ack(hasRemoved(t, fresh.Recv(t), []string{"z"}))
		fresh.Unsubscribe(cds, "never-asked")
		fresh.Quiet(t, short)
	})
}

// B36, K13: the content to send before the origin has answered differs from the content to send
// afterwards, although nothing has changed.
func TestUnsubscribeBeforeTheAnswer(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.open(true)
		first.Subscribe(cds, "a")
		w.asked(cds, "a")
		w.change(cds, nil, cluster("a", 1))
		first.Ack(has(t, first.Recv(t), "a"))

		early := w.open(true)
		early.Subscribe(cds, "*", "z")
		early.Ack(has(t, early.Recv(t), "a"))
		early.Unsubscribe(cds, "z")
		early.Quiet(t, short) // nobody knows yet

		w.asked(cds, "*", "a", "z")
		w.change(cds, nil)
		late := w.open(true)
		late.Subscribe(cds, "*", "z")
		late.Ack(has(t, late.Recv(t), "a"))
		late.Unsubscribe(cds, "z")
		late.Ack(hasRemoved(t, late.Recv(t), []string{"z"}))
	})
}

// B33: a client that leaves the wildcard and joins it again while a response is in flight keeps the
// content of that response, and is notified when it is removed.
func TestWildcardAgainBeforeTheAck(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "*")
		w.asked(eds, "*")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		f := has(t, s.Recv(t), "a", "b")
		s.Unsubscribe(eds, "*")
		s.Subscribe(eds, "*")
		xdstest.Eventually(t, "the wildcard to be joined again", func() bool {
			types := w.srv.Streams()[0].Types
			return len(types) == 1 && types[0].Wildcard && types[0].Sent == 0
		})
		w.change(eds, []string{"b"})
		s.Ack(f)
		s.Ack(hasRemoved(t, s.Recv(t), []string{"b"}, "a"))
	})
}

// B3: a type that nobody serves breaks nothing and does not loop.
func TestUnknownType(t *testing.T) {
	const unknown = resource.TypePrefix + "x.Y"
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(unknown, "a", "b")
		w.asked(unknown, "a", "b")
		w.absent(unknown, "a", "b")
		if delta {
			s.Ack(hasRemoved(t, s.Recv(t), []string{"a", "b"}))
		}
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("c", 1))
		s.Ack(has(t, s.Recv(t), "c"))
		s.Quiet(t, short)
		// It is relayed all the same, should the origin know it.
		w.named(unknown, "a", xdstest.Cluster("a", 1))
		if f := s.Recv(t); f.TypeURL != unknown {
			t.Fatalf("expected the unknown type: %v", f)
		}
	})
}
