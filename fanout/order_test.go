package fanout

import (
	"slices"
	"testing"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// E1: types that wait together are sent in order.
func TestOrderOfTypes(t *testing.T) {
	types := []string{cds, eds, lds, resource.ScopedRouteURL, rds, resource.SecretURL}
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		for _, url := range slices.Backward(types) {
			s.Subscribe(url, "a")
			w.asked(url, "a")
		}
		st := w.srv.snapshot()[0]
		st.mu.Lock() // so that the client is looked at once, when all is there
		for _, url := range slices.Backward(types) {
			w.change(url, nil, xdstest.Synthetic(url, "a", 1))
		}
		st.mu.Unlock()
		for _, url := range types {
			if f := s.Recv(t); f.TypeURL != url {
				t.Fatalf("expected %s: %v", url, f)
			}
		}
	})
}

// E2: routes do not overtake the clusters that came before them.
func TestRoutesWaitForClusters(t *testing.T) {
	for _, first := range []string{cds, eds} {
		for _, then := range []string{lds, rds} {
			both(t, func(t *testing.T, delta bool) {
				w := newWorld(t)
				s := w.open(delta)
				s.Subscribe(first, "x", "y")
				w.asked(first, "x", "y")
				w.change(first, nil, xdstest.Synthetic(first, "x", 1))
				unanswered := s.Recv(t)
				s.Subscribe(then, "r")
				w.asked(then, "r")
				w.change(first, nil, xdstest.Synthetic(first, "y", 1))
				w.change(then, nil, xdstest.Synthetic(then, "r", 1))
				s.Quiet(t, short) // the route to "y" must not come before "y"
				s.Ack(unanswered)
				if f := s.Recv(t); f.TypeURL != first {
					t.Fatalf("expected %s before: %v", first, f)
				}
				if f := s.Recv(t); f.TypeURL != then { // not kept back for the ACK: the order suffices
					t.Fatalf("expected %s: %v", then, f)
				}
			})
		}
	}
}

// moveAway gives a client of two clusters a route to "y", and the client
// answers all but the last route, which it leaves unanswered.
func moveAway(t *testing.T, w *world, delta bool) (s *xdstest.Stream, unanswered *xdstest.Frame) {
	s = w.open(delta)
	s.Subscribe(cds)
	s.Subscribe(rds, "r")
	w.asked(cds, "*")
	w.asked(rds, "r")
	w.serve("", cds, cluster("x", 1), cluster("y", 1))
	s.Ack(has(t, s.RecvType(t, cds), "x", "y"))
	w.change(rds, nil, route("r", "y"))
	return s, has(t, s.RecvType(t, rds), "r")
}

// E2, E5: a cluster goes only after the routes that left it, also where a slow
// client gets both changes as one. SotW sees the union of old and new between,
// under a version of its own (D7).
func TestClustersGoAfterRoutes(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s, unanswered := moveAway(t, w, delta)
		w.change(rds, nil, route("r", "x"))
		w.change(cds, []string{"y"}, cluster("z", 1))
		f := s.Recv(t)
		if delta {
			s.Ack(has(t, f, "z"))
		} else {
			s.Ack(has(t, f, "x", "y", "z"))
		}
		s.Quiet(t, short) // the route waits for its ACK, and "y" for the route
		s.Ack(unanswered)
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		g := s.RecvType(t, cds)
		if delta {
			s.Ack(hasRemoved(t, g, []string{"y"}))
		} else {
			s.Ack(has(t, g, "x", "z"))
			if f.Version == g.Version { // D7
				t.Fatalf("the union has the version %q of what follows it", f.Version)
			}
		}
		s.Quiet(t, short)
	})
}

// E2: clients that have to wait with removals, and those that need not, share the
// answer that has none.
func TestOneBodyWhereNothingGoes(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		waits, _ := moveAway(t, w, delta)
		free := w.open(delta)
		free.Subscribe(cds)
		free.Ack(has(t, free.RecvType(t, cds), "x", "y"))
		w.change(rds, nil, route("r", "x"))
		free.Quiet(t, short)
		built := w.srv.bodies.Built()
		w.change(cds, nil, cluster("z", 1))
		for _, s := range []*xdstest.Stream{waits, free} {
			f := s.RecvType(t, cds)
			if delta {
				s.Ack(has(t, f, "z"))
			} else {
				s.Ack(has(t, f, "x", "y", "z"))
			}
		}
		if n := w.srv.bodies.Built() - built; n != 1 {
			t.Errorf("%d bodies were built", n)
		}
	})
}

// E2: a cluster that comes back while its removal was held back was never gone.
func TestHeldRemovalIsTakenBack(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s, unanswered := moveAway(t, w, delta)
		w.change(rds, nil, route("r", "x"))
		w.change(cds, []string{"y"})
		s.Quiet(t, short)
		w.change(cds, nil, cluster("y", 1))
		if delta {
			s.Ack(has(t, s.Recv(t), "y"))
		} else {
			s.Ack(has(t, s.Recv(t), "x", "y"))
		}
		s.Ack(unanswered)
		s.Ack(has(t, s.Recv(t), "r"))
		s.Quiet(t, short)
	})
}

// E2, B12, E7: removals that are held back for routes do not wait indefinitely, whether the client
// rejects the routes or never answers.
func TestHeldRemovalsGoInTheEnd(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		for _, silent := range []bool{true, false} {
			w := newWorld(t, func(c *Config) { c.AckTimeout = 3 * short })
			s, unanswered := moveAway(t, w, delta)
			w.change(rds, nil, route("r", "x"))
			w.change(cds, []string{"y"})
			if !silent {
				s.Nack(unanswered, "no")
				s.Nack(has(t, s.RecvType(t, rds), "r"), "no")
			} else {
				has(t, s.RecvType(t, rds), "r")
			}
			if f := s.RecvType(t, cds); delta {
				hasRemoved(t, f, []string{"y"})
			} else {
				has(t, f, "x")
			}
			s.Quiet(t, short)
		}
	})
}

// E2, K13: routes that the origin has not answered for hold nothing back.
func TestUnknownRoutesHoldNothingBack(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(rds, "r")
		s.Resume(lds, "v", map[string]string{"l": "v"})
		w.asked(cds, "*")
		w.serve("", cds, cluster("x", 1), cluster("y", 1))
		s.Ack(has(t, s.Recv(t), "x", "y"))
		w.change(cds, []string{"y"})
		if f := s.Recv(t); delta {
			hasRemoved(t, f, []string{"y"})
		} else {
			has(t, f, "x")
		}
	})
}

// E3: after a cluster that is new or changed its endpoints come again, by the
// name that the cluster gives them, and those of other clusters do not.
func TestEndpointsAgainAfterTheirCluster(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.serve("", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.RecvType(t, cds), "a", "b"))
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Ack(has(t, s.RecvType(t, eds), "a", "b"))
		s.Quiet(t, short)
		w.serve("", cds, cluster("a", 2), cluster("b", 1))
		if f := s.Recv(t); f.TypeURL != cds {
			t.Fatalf("expected the cluster first: %v", f)
		} else {
			s.Ack(f)
		}
		s.Ack(has(t, s.RecvType(t, eds), "a"))
		s.Quiet(t, short)
		w.change(cds, []string{"b"}) // a removal refreshes nothing
		s.Ack(s.RecvType(t, cds))
		s.Quiet(t, short)
	})
}

// E3: also right after a reconnect that repeats nothing else, whichever of the
// two types the client asks for first.
func TestEndpointsAgainAfterAReconnect(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, first := range []string{cds, eds} {
			w := newWorld(t)
			s := w.open(true)
			s.Subscribe(cds)
			s.Subscribe(eds, "a", "b")
			w.asked(eds, "a", "b")
			w.serve("", cds, cluster("a", 2), cluster("b", 1))
			w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
			s.Recv(t)
			again := w.open(true)
			resumeEDS := func() {
				again.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1)), "b": version(t, endpoints("b", 1))}, "a", "b")
			}
			if first == eds {
				resumeEDS()
			}
			again.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1)), "b": version(t, cluster("b", 1))})
			has(t, again.RecvType(t, cds), "a")
			if first == cds {
				resumeEDS()
			}
			has(t, again.RecvType(t, eds), "a")
			again.Quiet(t, short)
		}
	})
}

// E3, B37: also for a client that subscribed to its endpoints again before it was known whether its
// copies are current.
func TestEndpointsAgainBeforeTheyAreCompared(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1))}, "a")
		s.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1))})
		w.asked(eds, "a")
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 2))
		s.Ack(has(t, s.RecvType(t, cds), "a"))
		w.change(eds, nil, endpoints("a", 1))
		s.Ack(has(t, s.RecvType(t, eds), "a"))
		s.Quiet(t, short)
	})
}

// E8: what a listener refers to goes after the listener has let go of it, even if
// the client is slow with listeners; so do routes.
func TestChildrenGoAfterTheirParents(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, child := range []string{rds, resource.SecretURL, resource.ExtensionURL} {
			w := newWorld(t)
			s := w.open(true)
			s.Subscribe(lds)
			s.Subscribe(child, "f")
			w.asked(lds, "*")
			w.asked(child, "f")
			w.change(lds, nil, listener("a", 1))
			s.Ack(has(t, s.RecvType(t, lds), "a"))
			w.change(child, nil, xdstest.Synthetic(child, "f", 1))
			s.Ack(has(t, s.RecvType(t, child), "f"))
			w.change(lds, nil, listener("b", 1))
			slow := has(t, s.RecvType(t, lds), "b")
			w.change(lds, nil, listener("a", 2))
			w.change(child, []string{"f"})
			s.Quiet(t, short)
			s.Ack(slow)
			if f := s.Recv(t); f.TypeURL != lds {
				t.Fatalf("expected the listener first: %v", f)
			} else {
				s.Ack(f)
			}
			s.Ack(hasRemoved(t, s.Recv(t), []string{"f"}))
			s.Quiet(t, short)
		}
	})
}

// E4, E6: routes are not repeated because a listener changed, and nothing is
// sent that was not asked for.
func TestNoChildrenUnasked(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s, other := w.open(delta), w.open(delta)
		other.Subscribe(eds, "a")
		s.Subscribe(lds)
		s.Subscribe(rds, "routes")
		w.asked(eds, "a")
		w.asked(lds, "*")
		w.asked(rds, "routes")
		w.change(eds, nil, endpoints("a", 1))
		w.serve("", lds, listener("a", 1))
		w.change(rds, nil, route("routes", "a"))
		s.Ack(has(t, s.RecvType(t, lds), "a"))
		s.Ack(has(t, s.RecvType(t, rds), "routes"))
		w.serve("", lds, listener("a", 2))
		s.Ack(has(t, s.Recv(t), "a"))
		s.Quiet(t, short)
	})
}

// E7: a client that never answers for clusters gets routes all the same.
func TestTypesWaitForThemselvesOnly(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
		w.serve("", cds, cluster("a", 1))
		s.Recv(t)
		for v := range 5 {
			w.change(rds, nil, xdstest.Synthetic(rds, "r", v))
			s.Ack(has(t, s.RecvType(t, rds), "r"))
		}
	})
}
