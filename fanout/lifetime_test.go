package fanout

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// openWith opens a stream of a client with features.
func (w *world) openWith(delta bool, features ...string) *xdstest.Stream {
	w.t.Helper()
	node := xdstest.Node("test-client", "test-cluster")
	node.ClientFeatures = features
	c := w.dial()
	c.Node = node
	return c.Open(xdstest.Variant{Delta: delta})
}

// openTimed opens a stream of a client that accepts TTLs.
func (w *world) openTimed(delta bool) *xdstest.Stream {
	w.t.Helper()
	return w.openWith(delta, featureTTL, featureWrapped)
}

// live applies a resource with a TTL; 0 means none.
func (w *world) live(ttl time.Duration, ms ...proto.Message) {
	w.t.Helper()
	for _, m := range ms {
		r := *resources(w.t, m)[0]
		r.TTL = ttl
		w.origin().Apply(cache.Update{Type: resource.TypeOf(xdstest.TypeOf(m)), Resources: []*resource.Resource{resource.New(r)}})
	}
}

// beat applies a heartbeat.
func (w *world) beat(typeURL, name string, ttl time.Duration) {
	w.t.Helper()
	r := resource.New(resource.Resource{Name: name, TTL: ttl})
	w.origin().Apply(cache.Update{Type: resource.TypeOf(typeURL), Resources: []*resource.Resource{r}})
}

// lives fails the test unless the lifetime of a resource in the frame is at most, and nearly, the
// given one; 0 means that the frame has none.
func lives(t xdstest.TB, f *xdstest.Frame, name string, most time.Duration) xdstest.Resource {
	t.Helper()
	r, ok := f.Get(name)
	if !ok || r.TTL > most || r.TTL < most*3/4 || most == 0 && r.Wrapper.GetTtl() != nil {
		t.Fatalf("%q has %v left, expected about %v: %v", name, r.TTL, most, f)
	}
	return r
}

// TestWhoGetsTTLs: F1, F2, D9: delta clients with the feature get the TTL; SotW clients get it in
// a wrapper, if they have both features.
func TestWhoGetsTTLs(t *testing.T) {
	for name, c := range map[string]struct {
		delta    bool
		features []string
		sentTTL  bool
	}{
		"delta":                    {true, []string{featureTTL}, true},
		"delta without":            {true, []string{featureWrapped}, false},
		"sotw":                     {false, []string{featureTTL, featureWrapped}, true},
		"sotw, as the page has it": {false, []string{featureWrapped2, featureTTL}, true},
		"sotw without wrappers":    {false, []string{featureTTL}, false},
		"sotw without ttl":         {false, []string{featureWrapped}, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.openWith(c.delta, c.features...)
				s.Subscribe(eds, "a")
				w.asked(eds, "a")
				w.live(time.Minute, endpoints("a", 1))
				f := has(t, s.Recv(t), "a")
				s.Ack(f)
				if !c.sentTTL {
					r := lives(t, f, "a", 0)
					if wrapped := r.Wrapper != nil; wrapped != c.delta {
						t.Fatalf("wrapped: %t", wrapped)
					}
					w.beat(eds, "a", time.Minute) // F8
					s.Quiet(t, short)
					return
				}
				r := lives(t, f, "a", time.Minute)
				if r.Wrapper == nil || r.Body == nil || f.TypeURL != eds || r.Body.GetTypeUrl() != eds {
					t.Fatalf("told %v in a frame of %s", r.Wrapper, f.TypeURL)
				}
				w.live(0, endpoints("a", 1)) // the TTL is withdrawn
				s.Ack(has(t, s.Recv(t), "a"))
				s.Quiet(t, short)
			})
		})
	}
}

// TestTTLTakenBack: F2: a TTL that changes or ends is sent with the resource; on SotW the resource
// is no longer wrapped.
func TestTTLTakenBack(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.openTimed(delta)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.live(time.Minute, endpoints("a", 1))
		first := s.Recv(t)
		s.Ack(first)
		w.live(2*time.Minute, endpoints("a", 1))
		f := s.Recv(t)
		r := lives(t, f, "a", 2*time.Minute)
		if r.Body == nil || r.Version != first.Resources[0].Version {
			t.Fatalf("a changed TTL came as %v", r.Wrapper)
		}
		s.Ack(f)
		w.live(0, endpoints("a", 1))
		f = s.Recv(t)
		if r = lives(t, f, "a", 0); r.Body == nil || delta != (r.Wrapper != nil) {
			t.Fatalf("a TTL that ended came as %v", r.Wrapper)
		}
		s.Ack(f)
		s.Quiet(t, short)
	})
}

// TestRemainingLifetime: F3: a later client is sent the remaining lifetime.
func TestRemainingLifetime(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.openTimed(delta)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.live(2*time.Second, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		s.Quiet(t, time.Second)
		late := w.openTimed(delta)
		late.Subscribe(eds, "a")
		f := late.Recv(t)
		if r, _ := f.Get("a"); r.TTL > time.Second || r.TTL < time.Second/4 {
			t.Fatalf("%v left of 2 s after 1 s: %v", r.TTL, f)
		}
	})
}

// TestHeartbeat: F6, F7, F4: on delta a heartbeat has no body and the version that the client has;
// on SotW the resource is sent again, with the acknowledged version. Nothing is sent without a
// heartbeat of the control plane.
func TestHeartbeat(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.openTimed(delta)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.live(time.Minute, endpoints("a", 1), endpoints("b", 1))
		versions := map[string]string{}
		var last *xdstest.Frame
		for len(versions) < 2 {
			last = s.Recv(t)
			for _, r := range last.Resources {
				versions[r.Name] = r.Version
			}
			s.Ack(last)
		}
		for range 3 {
			w.beat(eds, "a", 2*time.Minute)
			f := has(t, s.Recv(t), "a")
			r := lives(t, f, "a", 2*time.Minute)
			if delta && (r.Body != nil || r.Version != versions["a"]) {
				t.Fatalf("a heartbeat came as %v, the version was %q", r.Wrapper, versions["a"])
			}
			if !delta && (r.Body == nil || f.Version != last.Version) {
				t.Fatalf("a refresh came as %v under %q, acknowledged was %q", r.Wrapper, f.Version, last.Version)
			}
			s.Ack(f)
			s.Quiet(t, short)
		}
		late := w.openTimed(delta)
		late.Subscribe(eds, "a")
		if r := lives(t, late.Recv(t), "a", 2*time.Minute); r.Body == nil {
			t.Fatal("a client that has nothing gets a heartbeat")
		}
	})
}

// TestHeartbeatsOfAFullState: F8: each refresh on SotW is the whole set, with bodies.
func TestHeartbeatsOfAFullState(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.openTimed(false)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1), cluster("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		w.live(time.Minute, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		w.beat(cds, "a", time.Minute)
		f := has(t, s.Recv(t), "a", "b")
		for _, r := range f.Resources {
			if r.Body == nil {
				t.Fatalf("%q has no body: %v", r.Name, f)
			}
		}
		lives(t, f, "a", time.Minute)
		lives(t, f, "b", 0)
	})
}

// TestExpiryAtTheWire: F5, C14, F4: a resource is removed when it expires, even if the control
// plane is unreachable; for SotW types without a full state nothing is sent.
func TestExpiryAtTheWire(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		delta, sotw, routes := w.open(true), w.open(false), w.open(false)
		delta.Subscribe(cds)
		sotw.Subscribe(cds)
		routes.Subscribe(eds, "e")
		w.asked(cds, "*")
		w.asked(eds, "e")
		w.serve("v1", cds, cluster("b", 1))
		for _, s := range []*xdstest.Stream{delta, sotw} {
			s.Ack(has(t, s.Recv(t), "b"))
		}
		w.live(2*time.Second, cluster("a", 1), endpoints("e", 1))
		delta.Ack(has(t, delta.Recv(t), "a"))
		sotw.Ack(has(t, sotw.Recv(t), "a", "b"))
		routes.Ack(has(t, routes.Recv(t), "e"))
		w.origin().Down(errGone)
		delta.Quiet(t, short)
		delta.Ack(hasRemoved(t, delta.Recv(t), []string{"a"}))
		sotw.Ack(has(t, sotw.Recv(t), "b"))
		routes.Quiet(t, short)
	})
}

// TestHeartbeatWhileHeld: B14, F6: after a NACK a client is sent heartbeats of what it has, and
// nothing of what it rejected.
func TestHeartbeatWhileHeld(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.openTimed(delta)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s.Ack(has(t, s.Recv(t), "a", "b"))
		w.live(time.Minute, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.live(time.Minute, endpoints("b", 2))
		s.Nack(has(t, s.Recv(t), "b"), "no")
		w.settled(eds, Nacked)
		w.beat(eds, "b", time.Minute)
		s.Quiet(t, short)
		w.beat(eds, "a", time.Minute)
		f := has(t, s.Recv(t), "a")
		lives(t, f, "a", time.Minute)
		s.Ack(f)
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 3))
		has(t, s.Recv(t), "a", "b") // B16
	})
}

// TestHeartbeatOfResentResource: B14, B16, B35: a resource that was sent again unchanged, and
// rejected, counts as unknown to the client, so its heartbeats are not sent.
func TestHeartbeatOfResentResource(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.openTimed(true)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.live(time.Minute, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		s.Subscribe(eds, "a")
		s.Nack(has(t, s.Recv(t), "a"), "no")
		w.settled(eds, Nacked)
		w.beat(eds, "a", time.Minute)
		s.Quiet(t, short)
	})
}

// TestHeartbeatMissed: B37, F3: a client that kept a resource over a reconnect is sent its
// remaining lifetime, without the body.
func TestHeartbeatMissed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.openTimed(true)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.live(time.Minute, endpoints("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.beat(eds, "a", 2*time.Minute)
		s.Ack(has(t, s.Recv(t), "a"))
		back := w.openTimed(true)
		back.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1))}, "a")
		if r := lives(t, has(t, back.Recv(t), "a"), "a", 2*time.Minute); r.Body != nil {
			t.Fatal("it has the body")
		}
	})
}
