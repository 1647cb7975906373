package fanout

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/relay/xdstest"
)

// B5: a stream's nonces are not empty and never repeat, across its types; K7:
// every frame names the relay and the origin behind it.
func TestNonces(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		w.source = "control-plane-7"
		s := w.open(delta)
		types := []string{cds, eds, lds, rds}
		for _, url := range types {
			s.Subscribe(url, "a")
			w.asked(url, "a")
		}
		seen := map[string]bool{}
		for v := range 25 {
			for _, url := range types {
				w.change(url, nil, xdstest.Synthetic(url, "a", v))
				f := s.RecvType(t, url)
				s.Ack(f)
				if f.Nonce == "" || seen[f.Nonce] {
					t.Fatalf("nonce %q is empty or came before", f.Nonce)
				}
				seen[f.Nonce] = true
				if url == cds && v > 0 {
					f = s.RecvType(t, eds) // E3
				}
				if got := identifier(f); got != "relay-1 <- control-plane-7" {
					t.Fatalf("control_plane.identifier is %q", got)
				}
				if url == cds && v > 0 {
					s.Ack(f)
				}
			}
		}
	})
}

func identifier(f *xdstest.Frame) string {
	switch m := f.Raw.(type) {
	case *discoveryv3.DiscoveryResponse:
		return m.GetControlPlane().GetIdentifier()
	case *discoveryv3.DeltaDiscoveryResponse:
		return m.GetControlPlane().GetIdentifier()
	}
	return ""
}

// B6: the newest nonce of the type counts, whatever other types sent since.
func TestNonceIsPerType(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds, "a")
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
		w.change(eds, nil, endpoints("a", 1))
		first := s.Recv(t)
		w.change(rds, nil, route("r", "a"))
		s.Ack(s.Recv(t))
		s.Ack(first)
		w.settled(eds, Synced)
		w.change(eds, nil, endpoints("a", 2))
		has(t, s.Recv(t), "a")
	})
}

// B7: a nonce of another stream makes the first request no less the first.
func TestNonceOfAnotherStream(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		if delta {
			s.Send(&deltaRequest{Node: w.conn.Node, TypeUrl: cds, ResponseNonce: "77"})
		} else {
			s.Send(&discoveryv3.DiscoveryRequest{Node: w.conn.Node, TypeUrl: cds, ResponseNonce: "77", VersionInfo: "old"})
		}
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		has(t, s.Recv(t), "a")
	})
}

// B8: a stale nonce on SotW is neither an answer nor a subscription.
func TestStaleNonce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		first := s.Recv(t)
		s.Ack(first)
		w.settled(eds, Synced)
		w.change(eds, nil, endpoints("a", 2))
		second := s.Recv(t)
		s.Ack(first, "b") // stale by now
		s.Subscribe(rds, "r")
		w.asked(rds, "r") // so the stale request was taken in
		if i := w.info(eds); i.Acks != 1 || i.Names != 1 || i.State != Stale {
			t.Fatalf("a stale request counted: %+v", i)
		}
		s.Ack(second)
		w.settled(eds, Synced)
		if i := w.info(eds); i.Acks != 2 || i.Names != 2 { // "b" came back with it
			t.Fatalf("the answer did not count: %+v", i)
		}
	})
}

// B9: with a response unanswered, whatever happens becomes one frame.
func TestOneInFlight(t *testing.T) {
	each(t, cds, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t)
		s := w.conn.Open(v)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1000))
		f := s.Recv(t)
		for i := range 100 {
			w.serve("", cds, cluster("a", i))
		}
		s.Quiet(t, short)
		s.Ack(f)
		f = has(t, s.Recv(t), "a")
		if f.Resources[0].Body.String() != xdstest.Any(cluster("a", 99)).String() {
			t.Fatal("the frame does not hold the last state")
		}
		s.Ack(f)
		s.Quiet(t, short)
	})
}

// B10: without a nonce a SotW request states what is wanted, and is no ACK,
// whether or not the client will ever answer what it was sent before.
func TestNoNonceIsAStatement(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, acked := range []bool{true, false} {
			w := newWorld(t)
			s := w.open(false)
			s.Subscribe(eds, "a")
			w.asked(eds, "a")
			w.change(eds, nil, endpoints("a", 1))
			f := s.Recv(t)
			if acked {
				s.Ack(f)
				w.settled(eds, Synced)
			}
			s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a", "b"}})
			w.asked(eds, "a", "b")
			if i := w.info(eds); (i.Acks == 1) != acked {
				t.Fatalf("%d ACKs were counted", i.Acks)
			}
			w.change(eds, nil, endpoints("b", 1))
			f = has(t, s.Recv(t), "b")
			s.Ack(f)
			w.settled(eds, Synced)
		}
	})
}

// B11: on delta the lists count even with a stale nonce.
func TestStaleDeltaNonce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		first := s.Recv(t)
		s.Ack(first)
		w.settled(eds, Synced)
		w.change(eds, nil, endpoints("a", 2))
		second := s.Recv(t)
		s.Ack(first, "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("b", 1))
		s.Quiet(t, short) // not an ACK of the second
		s.Ack(second)
		has(t, s.Recv(t), "b")
	})
}

// B12: a client that never answers gets newer state all the same, after a wait.
func TestSilenceEndsTheWait(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.AckTimeout = 10 * short })
		s := w.open(delta)
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		s.Recv(t)
		for v := range 2 { // the alarm goes off each time
			w.change(eds, nil, endpoints("a", 2+v))
			s.Quiet(t, short)
			has(t, s.Recv(t), "a")
		}
		if i := w.info(eds); i.Nacks != 0 || i.State != Stale {
			t.Fatalf("silence was taken for an answer: %+v", i)
		}
		s.Quiet(t, 11*short) // nothing new, nothing sent
	})
}

// B12: each type has its own wait, however their alarms fall together.
func TestAlarmsOfTwoTypes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.AckTimeout = 2 * short })
		s := w.open(true)
		s.Subscribe(eds, "a")
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
		w.change(eds, nil, endpoints("a", 1))
		s.Recv(t)
		w.change(eds, nil, endpoints("a", 2)) // the alarm is set for this type
		<-time.After(short)
		w.change(rds, nil, route("r", "a"))
		s.RecvType(t, rds)
		w.change(rds, nil, route("r", "b")) // and has to be set again for this one
		has(t, s.RecvType(t, eds), "a")
		has(t, s.RecvType(t, rds), "r")
	})
}

// B8, B19, B20: names count as having been sent even by a stale request, which
// otherwise counts for nothing: the empty list that follows means nothing, not
// everything.
func TestStaleNamesEndTheLegacyWildcard(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1))
		first := s.Recv(t)
		s.Ack(first)
		w.settled(cds, Synced)
		w.serve("", cds, cluster("a", 2))
		second := s.Recv(t)
		leave := func(nonce string, names ...string) {
			s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: names, ResponseNonce: nonce})
		}
		leave(first.Nonce, "*") // crossed the second frame
		leave(first.Nonce)
		leave(second.Nonce)
		w.wildcards(cds, 0)
		w.serve("", cds, cluster("a", 3))
		s.Quiet(t, short)
	})
}
