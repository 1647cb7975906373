package fanout

import (
	"errors"
	"testing"

	"xdsrelay/relay/xdstest"
)

// back is a client that returns with "x" everywhere to a relay that knows
// nothing, in a burst of requests.
func back(t *testing.T, types ...string) (w *world, s *xdstest.Stream) {
	w = newWorld(t)
	s = w.open(true)
	names := map[string][]string{cds: nil, lds: nil, eds: {"x", "y"}, rds: {"r", "old"}}
	held := map[string]string{cds: "x", eds: "x", lds: "l", rds: "old"}
	for _, url := range types {
		s.Resume(url, "", map[string]string{held[url]: "held"}, names[url]...)
	}
	for _, url := range types {
		if names[url] == nil {
			w.asked(url, "*")
		} else {
			w.asked(url, names[url]...)
		}
	}
	return w, s
}

// TestDifferenceAfterAReconnect: E5, B37: while the relay was away everything moved from "x" to
// "y". The client gets new content in the order E1, and removals last, in reverse order, however
// late the routes are known.
func TestDifferenceAfterAReconnect(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := back(t, cds, eds, lds, rds)
		w.serve("", cds, cluster("y", 1))
		w.change(eds, []string{"x"}, endpoints("y", 1))
		s.Ack(has(t, s.Recv(t), "y"))
		if f := has(t, s.Recv(t), "y"); f.TypeURL != eds {
			t.Fatalf("expected endpoints: %v", f)
		} else {
			s.Ack(f)
		}
		s.Quiet(t, 2*resumeGrace) // the routes may still need what is gone
		w.serve("", lds, listener("m", 1))
		s.Ack(hasRemoved(t, s.Recv(t), []string{"l"}, "m"))
		s.Quiet(t, short)
		w.change(rds, []string{"old"}, route("r", "y"))
		last := hasRemoved(t, s.Recv(t), []string{"old"}, "r")
		s.Quiet(t, short)
		s.Ack(last)
		for _, url := range []string{eds, cds} {
			f := hasRemoved(t, s.Recv(t), []string{"x"})
			if f.TypeURL != url {
				t.Fatalf("expected the removals of %s: %v", url, f)
			}
			s.Quiet(t, short)
			s.Ack(f)
		}
		s.Quiet(t, short)
	})
}

// TestRemovalsWithoutRoutes: E5: removals are sent to a client without routes after a moment; to a
// client on a service of its own type at once.
func TestRemovalsWithoutRoutes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := back(t, cds)
		w.serve("", cds, cluster("y", 1))
		s.Ack(has(t, s.Recv(t), "y"))
		s.Ack(hasRemoved(t, s.Recv(t), []string{"x"}))
		alone := w.conn.Open(xdstest.Variant{Delta: true, Service: cds})
		alone.Resume(cds, "", map[string]string{"x": "held"})
		hasRemoved(t, alone.Recv(t), []string{"x"}, "y")
	})
}

// TestRemovalsAfterARejection: B14, E5: removals that had to wait are sent as soon as they may be,
// even if the client has rejected what it was sent before; once.
func TestRemovalsAfterARejection(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := back(t, cds)
		w.serve("", cds, cluster("y", 1), cluster("z", 1))
		s.Nack(has(t, s.Recv(t), "y", "z"), "no")
		w.settled2(cds, Nacked)
		w.change(cds, []string{"z"}) // while all removals wait
		s.Nack(has(t, s.Recv(t), "y"), "no")
		s.Nack(hasRemoved(t, s.Recv(t), []string{"x", "z"}, "y"), "no")
		s.Quiet(t, 2*resumeGrace)
		w.change(cds, nil, cluster("y", 2))
		s.Ack(hasRemoved(t, s.Recv(t), []string{"x", "z"}, "y"))
		s.Quiet(t, short)
	})
}

// TestRemovalsDoNotWaitForever: E5: routes that never come hold removals for
// five seconds.
func TestRemovalsDoNotWaitForever(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := back(t, cds, rds)
		w.serve("", cds, cluster("y", 1))
		f := has(t, s.Recv(t), "y")
		st := w.srv.snapshot()[0]
		st.mu.Lock()
		st.back.since = st.back.since.Add(4*resumeGrace - resumeLimit)
		st.mu.Unlock()
		s.Ack(f)
		s.Quiet(t, 2*resumeGrace)
		s.Ack(hasRemoved(t, s.Recv(t), []string{"x"}))
	})
}

// TestRemovalsDoNotWaitForAnOriginThatIsGone: E5, K15: nobody can say what routes there
// are, so nothing waits for them.
func TestRemovalsDoNotWaitForAnOriginThatIsGone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Resume(cds, "", map[string]string{"x": "held"})
		s.Subscribe(rds, "r")
		w.asked(cds, "*")
		w.asked(rds, "r")
		w.serve("", cds, cluster("y", 1))
		s.Ack(has(t, s.Recv(t), "y"))
		s.Quiet(t, 2*resumeGrace)
		w.origin().Down(errors.New("gone"))
		if f, err := s.Next(resumeLimit/2, func(*xdstest.Frame) bool { return true }); err != nil {
			t.Fatalf("no removal: %v", err)
		} else {
			hasRemoved(t, f, []string{"x"})
		}
	})
}

// TestDifferenceOfAnotherOrigin: E5: after a new stream to the origin, or to
// another one, clusters go only once the routes are known, too. On SotW the
// client sees old and new together in between.
func TestDifferenceOfAnotherOrigin(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(rds, "r")
		w.asked(cds, "*")
		w.asked(rds, "r")
		w.serve("", cds, cluster("x", 1))
		w.change(rds, nil, route("r", "x"))
		s.Ack(has(t, s.Recv(t), "x"))
		s.Ack(has(t, s.Recv(t), "r"))

		w.origin().TakeDemand(true, true)
		w.serve("", cds, cluster("y", 1))
		if f := s.Recv(t); delta {
			s.Ack(has(t, f, "y"))
		} else {
			s.Ack(has(t, f, "x", "y"))
		}
		s.Quiet(t, short)
		w.change(rds, nil, route("r", "y"))
		s.Ack(has(t, s.Recv(t), "r"))
		if f := s.Recv(t); delta {
			s.Ack(hasRemoved(t, f, []string{"x"}))
		} else {
			s.Ack(has(t, f, "y"))
		}

		w.origin().TakeDemand(true, true)
		w.serve("", cds, cluster("z", 1))
		s.Ack(s.Recv(t))
		w.change(rds, nil, route("r", "y")) // the same as before
		if f := s.Recv(t); delta {
			s.Ack(hasRemoved(t, f, []string{"y"}))
		} else {
			s.Ack(has(t, f, "z"))
		}
		s.Quiet(t, short)
	})
}
