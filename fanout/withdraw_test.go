package fanout

import (
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

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

// TestRemovalsAfterADroppedRoute: E2: a client that drops a route before it has read
// the response with it, and asks for it again, takes that response for an answer. So
// what the route leads to there stays until the client has answered.
func TestRemovalsAfterADroppedRoute(t *testing.T) {
	for _, c := range []struct {
		url         string
		wants, drop []string
	}{
		{rds, []string{"r", "s"}, []string{"r"}},
		{rds, []string{"r", "s"}, []string{"r", "s"}},
		{lds, []string{"*"}, []string{"*"}},
	} {
		drop := func(t *testing.T) (s *xdstest.Stream, unanswered *xdstest.Frame) {
			w := newWorld(t, func(c *Config) { c.AckTimeout = 10 * short })
			s = w.open(true)
			s.Subscribe(cds)
			s.Subscribe(c.url, c.wants...)
			w.asked(cds, "*")
			w.asked(c.url, c.wants...)
			w.serve("", cds, cluster("x", 1), cluster("y", 1))
			w.serve("", c.url, xdstest.Synthetic(c.url, "r", 1), xdstest.Synthetic(c.url, "s", 1))
			s.Ack(has(t, s.RecvType(t, cds), "x", "y"))
			unanswered = has(t, s.RecvType(t, c.url), "r", "s")
			s.Unsubscribe(c.url, c.drop...)
			w.change(c.url, nil, xdstest.Synthetic(c.url, "r", 2))
			w.change(cds, []string{"y"})
			s.Quiet(t, short)
			return s, unanswered
		}
		virtual(t, func(t *testing.T) {
			s, unanswered := drop(t)
			s.Subscribe(c.url, c.drop...)
			s.Quiet(t, short)
			s.Ack(unanswered)
			s.RecvType(t, c.url)
			s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"y"}))
		})
		virtual(t, func(t *testing.T) {
			s, unanswered := drop(t)
			s.Ack(unanswered)
			s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"y"}))
			s.Quiet(t, short)
		})
		virtual(t, func(t *testing.T) { // B12
			s, _ := drop(t)
			time.Sleep(10 * short) //nolint:forbidigo // virtual time
			s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"y"}))
			s.Quiet(t, short)
		})
	}
}

// TestNothingLeftAfterAReconnect: E5, B37: also where there is nothing but what has
// gone, it goes after the routes.
func TestNothingLeftAfterAReconnect(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := back(t, cds, rds)
		w.serve("", cds)
		s.Ack(has(t, s.RecvType(t, cds))) // B24
		s.Quiet(t, 2*resumeGrace)
		w.change(rds, []string{"old"}, route("r", "y"))
		s.Ack(hasRemoved(t, s.RecvType(t, rds), []string{"old"}, "r"))
		s.Ack(hasRemoved(t, s.RecvType(t, cds), []string{"x"}))
		s.Quiet(t, short)
	})
}

// TestRemovalsOfClaimsAfterARejection: B14, E5: a removal that is due only since the client
// reconnected with the resource, and had to wait, is sent as soon as it may be, even if the client
// has rejected what it was sent before.
func TestRemovalsOfClaimsAfterARejection(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := back(t, cds)
		w.serve("", cds, cluster("y", 1))
		s.Nack(has(t, s.Recv(t), "y"), "no")
		s.Nack(hasRemoved(t, s.Recv(t), []string{"x"}, "y"), "no")
		s.Quiet(t, 2*resumeGrace)
	})
}

// TestRemovalsFreedInOneLook: E2: removals wait for routes with news; where these turn
// out to be no news for the client, nothing else would bring the removals.
func TestRemovalsFreedInOneLook(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s, unanswered := moveAway(t, w, false)
		s.Ack(unanswered)
		s.Quiet(t, short)
		st := w.srv.snapshot()[0]
		st.mu.Lock() // so that nobody else looks
		w.change(rds, []string{"r"})
		w.change(cds, []string{"y"})
		before := st.nonces
		st.flushLocked()
		sent := st.nonces - before
		st.mu.Unlock()
		if sent != 1 {
			t.Errorf("%d responses were sent", sent)
		}
		s.Ack(has(t, s.RecvType(t, cds), "x"))
		s.Quiet(t, short)
	})
}

// TestAbsenceForNewClient: B34, B40, E2: a name that does not exist is no removal for a client
// that was sent nothing of the type yet, or just a part of it: the client is notified at once, even
// if removals would have to wait for routes.
func TestAbsenceForNewClient(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, small(2))
		s, other := w.open(true), w.open(true)
		names := []string{"a", "b", "c", "z"}
		other.Subscribe(eds, names...)
		s.Subscribe(rds, "r")
		w.asked(eds, names...)
		w.asked(rds, "r")
		w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: sized(eds, 200, "a", "b", "c")})
		w.absent(eds, "z")
		w.change(rds, nil, route("r", "x"))
		unanswered := has(t, s.Recv(t), "r")
		w.change(rds, nil, route("r", "y")) // has to wait
		s.Subscribe(eds, names...)
		missing := map[string]bool{"a": true, "b": true, "c": true, "z": true}
		for len(missing) > 0 {
			f := s.RecvType(t, eds)
			for _, n := range append(f.Names(), f.Removed...) {
				delete(missing, n)
			}
			s.Ack(f)
		}
		s.Quiet(t, short)
		s.Ack(unanswered)
		s.Ack(has(t, s.RecvType(t, rds), "r"))
	})
}
