package fanout

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

const (
	interval200 = 200 * time.Millisecond
	tenth       = interval200 / 10
)

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// setIntervals sets the same minimum interval for types.
func (w *world) setIntervals(types ...string) {
	byType := make(map[string]time.Duration)
	for _, url := range types {
		byType[url] = interval200
	}
	w.srv.cfg.Pool.SetIntervals(byType)
}

// atOnce takes a frame of a type that is there without any time passing, and accepts it.
func atOnce(t *testing.T, s *xdstest.Stream, typeURL string, names ...string) *xdstest.Frame {
	t.Helper()
	began := time.Now()
	f := s.Recv(t)
	if waited := time.Since(began); waited > 0 || f.TypeURL != typeURL {
		t.Fatalf("after %v, expected a frame of %s at once: %v", waited, typeURL, f)
	}
	if names != nil {
		has(t, f, names...)
	}
	s.Ack(f)
	synctest.Wait()
	return f
}

// pacedClient is a client of endpoints a and b, in a quiet time.
func pacedClient(t *testing.T, w *world, s *xdstest.Stream) {
	t.Helper()
	s.Subscribe(eds, "a", "b")
	w.asked(eds, "a", "b")
	w.change(eds, nil, endpoints("a", 0), endpoints("b", 0))
	atOnce(t, s, eds, "a", "b")
	pass(interval200)
}

// TestPaced: the first change after a quiet interval is sent at once, and those that follow in the
// interval as one response at its end, with the newest content: in every variant.
func TestPaced(t *testing.T) {
	each(t, eds, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.conn.Open(v)
		pacedClient(t, w, s)
		for range 3 {
			began := time.Now()
			w.change(eds, nil, endpoints("a", 1))
			atOnce(t, s, eds, "a")
			for v := range 5 {
				pass(tenth)
				w.change(eds, nil, endpoints("a", 2+v), endpoints("b", 2+v))
			}
			w.expectWaiting(eds, "minimum interval")
			f := has(t, s.Recv(t), "a", "b")
			if after := time.Since(began); after != interval200 {
				t.Errorf("sent after %v, expected the end of the interval", after)
			}
			for _, m := range []proto.Message{endpoints("a", 6), endpoints("b", 6)} {
				if got, _ := f.Get(xdstest.NameOf(m)); string(got.Body.GetValue()) != string(xdstest.Any(m).GetValue()) {
					t.Errorf("got %v, expected the newest content %v", got, m)
				}
			}
			s.Ack(f)
			pass(tenth)
			w.expectWaiting(eds, "")
			w.change(eds, nil, endpoints("b", 7)) // the next interval has begun with that response
			s.Quiet(t, interval200-tenth-time.Millisecond)
			pass(time.Millisecond)
			atOnce(t, s, eds, "b")
			s.Quiet(t, 3*interval200)
			w.isIdle(t)
		}
	})
}

// isIdle holds that nothing is left of intervals that are over.
func (w *world) isIdle(t *testing.T) {
	t.Helper()
	p := w.srv.cfg.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pacing.intervals)+len(p.pacing.queues) > 0 {
		t.Errorf("%d intervals and %d timers are left", len(p.pacing.intervals), len(p.pacing.queues))
	}
}

// TestPacedTypesAreIndependent: a type without a minimum interval is sent at once, while another
// waits.
func TestPacedTypesAreIndependent(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.open(delta)
		s.Subscribe(resource.SecretURL, "s")
		w.asked(resource.SecretURL, "s")
		w.change(resource.SecretURL, nil, xdstest.Synthetic(resource.SecretURL, "s", 0))
		atOnce(t, s, resource.SecretURL)
		pacedClient(t, w, s)
		w.change(eds, nil, endpoints("a", 1))
		atOnce(t, s, eds, "a")
		w.change(eds, nil, endpoints("a", 2))
		for v := range 5 {
			w.change(resource.SecretURL, nil, xdstest.Synthetic(resource.SecretURL, "s", 1+v))
			atOnce(t, s, resource.SecretURL)
		}
		w.expectWaiting(eds, "minimum interval")
		pass(interval200)
		atOnce(t, s, eds, "a")
	})
}

// TestPacedAnswersAtOnce: B18, B24, B35: what a client asks for is sent at once, whether it is there
// or arrives later, and so is a first state, while changes wait for the end of an interval. So is a
// resource that the client has asked for and that did not exist.
func TestPacedAnswersAtOnce(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.open(delta)
		pacedClient(t, w, s)
		w.change(eds, nil, endpoints("a", 1))
		atOnce(t, s, eds, "a")
		w.change(eds, nil, endpoints("a", 2))
		s.Quiet(t, tenth)

		other := w.open(delta)
		other.Subscribe(eds, "a", "b")
		atOnce(t, other, eds, "a", "b") // a first state

		s.Subscribe(eds, "c")
		w.asked(eds, "a", "b", "c")
		pass(tenth) // the edit may bring the changes along
		w.change(eds, nil, endpoints("a", 3))
		pass(tenth)
		drainFrames(t, s)
		w.change(eds, nil, endpoints("c", 1))
		atOnce(t, s, eds, "c")

		other.Subscribe(eds, "d")
		w.asked(eds, "a", "b", "c", "d")
		w.absent(eds, "d")
		pass(interval200)
		drainFrames(t, other)
		w.change(eds, nil, endpoints("a", 4))
		atOnce(t, other, eds, "a")
		w.change(eds, nil, endpoints("a", 5))
		other.Quiet(t, tenth)
		w.change(eds, nil, endpoints("d", 1))
		began := time.Now()
		other.Ack(has(t, other.Recv(t), "a", "d"))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a resource that did not exist when it was asked for was sent after %v", waited)
		}
	})
}

// drainFrames accepts all frames that are there.
func drainFrames(t *testing.T, s *xdstest.Stream) {
	t.Helper()
	for {
		f, err := s.Next(time.Millisecond, func(*xdstest.Frame) bool { return true })
		if err != nil {
			return
		}
		s.Ack(f)
	}
}

// TestPacedAfterNack: B14, B16: a client that has rejected a response is sent the next change at once.
func TestPacedAfterNack(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.open(delta)
		pacedClient(t, w, s)
		w.change(eds, nil, endpoints("a", 1))
		atOnce(t, s, eds, "a")
		w.change(eds, nil, endpoints("a", 2))
		pass(interval200)
		s.Nack(has(t, s.Recv(t), "a"), "no")
		s.Quiet(t, tenth)
		w.change(eds, nil, endpoints("a", 3))
		atOnce(t, s, eds, "a")
		w.change(eds, nil, endpoints("a", 4))
		s.Quiet(t, tenth)
		w.expectWaiting(eds, "minimum interval") // again, once it has accepted a response
		pass(interval200)
		atOnce(t, s, eds, "a")
	})
}

// TestPacedReconnect: B37: the difference to what a reconnecting client holds is sent at once.
func TestPacedReconnect(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.open(true)
		pacedClient(t, w, s)
		w.change(eds, nil, endpoints("a", 1))
		atOnce(t, s, eds, "a")
		w.change(eds, nil, endpoints("a", 2))
		pass(tenth)
		again := w.open(true)
		again.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1)), "b": version(t, endpoints("b", 0))}, "a", "b")
		atOnce(t, again, eds, "a")
		w.change(eds, nil, endpoints("b", 1)) // not yet resumed: what follows may be a part of the difference (E5)
		atOnce(t, again, eds, "b")
	})
}

// TestPacedSupplierIsAwaited: E2: what a route may lead to is sent before it, without a wait for the
// end of an interval.
func TestPacedSupplierIsAwaited(t *testing.T) {
	for _, paced := range []string{cds, eds} {
		both(t, func(t *testing.T, delta bool) {
			w := newWorld(t)
			w.setIntervals(paced)
			s := w.open(delta)
			s.Subscribe(paced, "x", "y")
			s.Subscribe(rds, "r")
			w.asked(paced, "x", "y")
			w.asked(rds, "r")
			w.change(paced, nil, xdstest.Synthetic(paced, "x", 1), xdstest.Synthetic(paced, "y", 1))
			w.change(rds, nil, route("r", "x"))
			atOnce(t, s, paced)
			atOnce(t, s, rds)
			pass(interval200)
			w.change(paced, nil, xdstest.Synthetic(paced, "x", 2))
			atOnce(t, s, paced)
			w.change(paced, nil, xdstest.Synthetic(paced, "y", 2))
			s.Quiet(t, tenth)
			w.change(rds, nil, route("r", "y"))
			atOnce(t, s, paced)
			atOnce(t, s, rds)
			w.change(paced, nil, xdstest.Synthetic(paced, "y", 3)) // the interval goes on
			s.Quiet(t, tenth)
			pass(interval200)
			atOnce(t, s, paced)
		})
	}
}

// TestPacedRemovalsKeepTheirOrder: E2, E5, E8: with intervals for all types, a cluster still goes
// after the route that left it, and the route is not held up.
func TestPacedRemovalsKeepTheirOrder(t *testing.T) {
	for name, paced := range map[string][]string{"clusters": {cds}, "routes": {rds}, "all": {cds, eds, lds, rds}} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, delta bool) {
				w := newWorld(t)
				w.setIntervals(paced...)
				s, unanswered := moveAway(t, w, delta)
				s.Ack(unanswered)
				pass(interval200)
				for range 2 { // in a quiet time, and in an interval
					w.change(cds, nil, cluster("z", 1))
					w.change(rds, nil, route("r", "x"))
					w.change(cds, []string{"y"})
					left := false
					for gone := false; !gone; {
						f := s.Recv(t)
						switch {
						case f.TypeURL == rds:
							left = true
						case delta:
							gone = slices.Contains(f.Removed, "y")
						default:
							gone = !slices.Contains(f.Names(), "y")
						}
						if gone && !left {
							t.Fatalf("the cluster goes before the route: %v", f)
						}
						s.Ack(f)
					}
					w.change(cds, nil, cluster("y", 2))
					w.change(rds, nil, route("r", "y"))
					for !left {
						f := s.Recv(t)
						left = f.TypeURL == rds
						s.Ack(f)
					}
					s.Ack(s.RecvType(t, cds))
					s.Ack(s.RecvType(t, rds))
					synctest.Wait()
				}
			})
		})
	}
}

// TestPacedEndpointsOfAChangedCluster: E3: a cluster that has changed gets its endpoints at once.
func TestPacedEndpointsOfAChangedCluster(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1))
		atOnce(t, s, cds)
		pacedClient(t, w, s)
		w.change(eds, nil, endpoints("b", 1))
		atOnce(t, s, eds, "b")
		w.change(eds, nil, endpoints("b", 2))
		s.Quiet(t, tenth)
		w.change(cds, nil, cluster("a", 2))
		atOnce(t, s, cds)
		atOnce(t, s, eds, "a", "b")
	})
}

// TestPacedFindsBeforeItIsWoken: a client that finds a change before the pool knows of it is woken for
// it at the end of the interval.
func TestPacedFindsBeforeItIsWoken(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.setIntervals(eds)
		s := w.open(delta)
		pacedClient(t, w, s)
		w.change(eds, nil, endpoints("a", 1))
		atOnce(t, s, eds, "a")
		sub := w.subscriptionOf(eds)
		if i := w.srv.cfg.Pool.pacing.intervals[sub]; i == nil || i.pending {
			t.Fatalf("after the first change: %+v", i)
		}
		if !w.srv.cfg.Pool.leaves(sub, sub.WakeState().Subscription, sub.WakeState().Gen) {
			t.Error("a client that has everything from the begin of the interval does not wait")
		}
		if i := w.srv.cfg.Pool.pacing.intervals[sub]; !i.pending {
			t.Error("the client is not woken at the end")
		}
		if w.srv.cfg.Pool.leaves(sub, sub.WakeState().Subscription, sub.WakeState().Gen-1) {
			t.Error("a client that lacks something from the begin of the interval waits")
		}
		if w.srv.cfg.Pool.leaves(sub, sub.WakeState().Subscription+1, sub.WakeState().Gen) {
			t.Error("a client waits that asks for something else than at the begin of the interval")
		}
		pass(2 * interval200)
		w.isIdle(t)
	})
}

// subscriptionOf returns the subscription of the only stream to a type.
func (w *world) subscriptionOf(typeURL string) *cache.Subscription {
	st := w.srv.snapshot()[0]
	st.mu.Lock()
	defer st.mu.Unlock()
	ts := st.findLocked(typeURL)
	return ts.table.Subscription(&ts.watcher)
}

// TestPacedTogether: clients that are answered at different times are woken together at the end of an
// interval, and share a body. Another node is sent every change at once.
func TestPacedTogether(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		w.setIntervals(eds)
		var clients []*xdstest.Stream
		for range 5 {
			s := w.open(true)
			clients = append(clients, s)
			if len(clients) == 1 {
				pacedClient(t, w, s)
				continue
			}
			s.Subscribe(eds, "a", "b")
			atOnce(t, s, eds, "a", "b")
		}
		for v := range 3 {
			w.change(eds, nil, endpoints("a", 10*v+1))
			built := w.srv.bodies.Built()
			for i, s := range clients {
				f := has(t, s.Recv(t), "a")
				pass(time.Duration(i) * time.Millisecond)
				s.Ack(f)
			}
			pass(tenth)
			for i := range 5 {
				w.change(eds, nil, endpoints("a", 10*v+2+i))
				pass(tenth)
			}
			ends := make(map[time.Time]bool)
			for _, s := range clients {
				f := has(t, s.Recv(t), "a")
				ends[time.Now()] = true
				s.Ack(f)
			}
			if now := w.srv.bodies.Built(); len(ends) != 1 || now-built > 2 {
				t.Errorf("responses at %d times of %d bodies, expected 1 of 2", len(ends), now-built)
			}
			pass(2 * interval200)
		}
	})
}

// TestPacedNotForOtherNodes: another node of the tier, which has an interval of its own, is sent every
// change at once.
func TestPacedNotForOtherNodes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		w.setIntervals(cds)
		s := w.openPeer(t)
		s.Subscribe(cds, "*")
		w.asked(cds, "*")
		w.serve("", cds, cluster("x", 0))
		s.Ack(s.Recv(t))
		for v := range 5 {
			w.change(cds, nil, cluster("x", v+1))
			atOnce(t, s, cds, "x")
		}
	})
}

// TestPacedStops: a stream that ends, a server that stops, and intervals that are taken back while
// changes wait leave nothing behind. Changes that wait are sent when their type has no interval any longer.
func TestPacedStops(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.setIntervals(eds)
		s, ends := w.open(delta), w.open(delta)
		pacedClient(t, w, s)
		ends.Subscribe(eds, "a", "b")
		atOnce(t, ends, eds)
		w.change(eds, nil, endpoints("a", 1))
		atOnce(t, s, eds, "a")
		atOnce(t, ends, eds, "a")
		w.change(eds, nil, endpoints("a", 2))
		pass(tenth)
		ends.Cancel()
		pass(tenth)
		w.setIntervals()
		atOnce(t, s, eds, "a")
		w.isIdle(t)
		w.setIntervals(eds)
		w.change(eds, nil, endpoints("a", 3))
		atOnce(t, s, eds, "a")
		w.change(eds, nil, endpoints("a", 4)) // and the server stops in the interval
	})
}
