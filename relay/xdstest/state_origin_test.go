package xdstest

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/xdsclient"
)

// The automatic origin stands in for control planes in the tests of others, so
// its own obedience is tested rule by rule, with scripted clients.

// serve starts an origin that serves resource n of the type at salt 1, for each
// name, and a scripted client's stream to it.
func serve(t *testing.T, v Variant, typeURL string, names ...string) (*StateOrigin, *Stream) {
	t.Helper()
	o := NewStateOrigin(t, nil)
	for _, n := range names {
		o.Set("", Synthetic(typeURL, n, 1))
	}
	return o, Dial(t, o.Addr()).Open(v)
}

// expect takes a frame, checks its names ("-n" is a removal), and returns it.
func expect(t *testing.T, s *Stream, names ...string) *Frame {
	t.Helper()
	f := s.Recv(t)
	got := f.Names()
	for _, n := range f.Removed {
		got = append(got, "-"+n)
	}
	if xdsclient.Brief(got) != xdsclient.Brief(names) {
		t.Fatalf("frame holds %s, want %s%s", xdsclient.Brief(got), xdsclient.Brief(names), s.Transcript())
	}
	return f
}

func TestStateOriginSotW(t *testing.T) {
	t.Run("B8 B9", func(t *testing.T) {
		o, s := serve(t, SotW, ClusterType, "a")
		s.Subscribe(ClusterType)
		first := expect(t, s, "a")
		o.Set("", Synthetic(ClusterType, "a", 2))
		s.Quiet(t, short) // unanswered
		s.Ack(first)
		second := expect(t, s, "a")
		o.Set("", Synthetic(ClusterType, "a", 3))
		s.Ack(first) // stale
		s.Quiet(t, short)
		s.Ack(second)
		s.Ack(expect(t, s, "a"))
		s.Quiet(t, short)
	})
	t.Run("B10", func(t *testing.T) {
		_, s := serve(t, SotW, EndpointType, "a", "b")
		s.Subscribe(EndpointType, "a")
		expect(t, s, "a")
		s.Subscribe(EndpointType, "b") // the frame was not answered: no nonce
		expect(t, s, "a", "b")
	})
	t.Run("B14", func(t *testing.T) {
		o, s := serve(t, SotW, ClusterType, "a")
		s.Subscribe(ClusterType)
		s.Nack(expect(t, s, "a"), "no")
		s.Quiet(t, short)
		o.Set("", Synthetic(ClusterType, "a", 2))
		expect(t, s, "a")
	})
	t.Run("B17 B18 B19", func(t *testing.T) {
		o, s := serve(t, SotW, EndpointType, "a", "b")
		s.Subscribe(EndpointType, "a", "b")
		s.Ack(expect(t, s, "a", "b"))
		s.Unsubscribe(EndpointType, "b")
		s.Quiet(t, short)
		o.Set("", Synthetic(EndpointType, "b", 2))
		s.Quiet(t, short)
		s.Unsubscribe(EndpointType, "a")
		s.Quiet(t, short)
		o.Set("", Synthetic(EndpointType, "a", 2))
		s.Quiet(t, short)
		s.Subscribe(EndpointType, "a")
		expect(t, s, "a")
	})
	t.Run("B21", func(t *testing.T) {
		_, s := serve(t, SotW, EndpointType, "a", "b")
		s.Subscribe(EndpointType)
		s.Quiet(t, short)
		s.Subscribe(EndpointType, "a")
		expect(t, s, "a")
	})
	t.Run("B20 B22", func(t *testing.T) {
		o, s := serve(t, SotW, ClusterType, "a", "b")
		s.Subscribe(ClusterType)
		s.Ack(expect(t, s, "a", "b"))
		s.Subscribe(ClusterType, "*", "a")
		s.Ack(expect(t, s, "a", "b"))
		s.Unsubscribe(ClusterType, "*")
		s.Quiet(t, short)
		o.Set("", Synthetic(ClusterType, "b", 2))
		s.Quiet(t, short)
		s.Unsubscribe(ClusterType, "a")
		s.Quiet(t, short)
		o.Set("", Synthetic(ClusterType, "a", 2))
		s.Quiet(t, short)
	})
	t.Run("B24 B32", func(t *testing.T) {
		o, s := serve(t, SotW, ClusterType)
		s.Subscribe(ClusterType)
		s.Ack(expect(t, s))
		o.Set("", Synthetic(ClusterType, "a", 1))
		s.Ack(expect(t, s, "a"))
		o.Remove("", ClusterType, "a")
		s.Ack(expect(t, s))

		o, s = serve(t, SotW, EndpointType, "a")
		s.Subscribe(EndpointType, "a")
		s.Ack(expect(t, s, "a"))
		o.Remove("", EndpointType, "a")
		s.Quiet(t, short)
		o.Set("", Synthetic(EndpointType, "a", 1))
		expect(t, s, "a")
	})
	t.Run("B25 B26 B39", func(t *testing.T) {
		o, s := serve(t, SotW, RouteType, "a")
		s.Resume(RouteType, "w1", nil, "a", "missing")
		s.Ack(expect(t, s, "a"))
		o.Set("", Synthetic(RouteType, "missing", 1))
		expect(t, s, "a", "missing")
	})
	t.Run("B32 on return", func(t *testing.T) {
		_, s := serve(t, SotW, ClusterType)
		s.Resume(ClusterType, "w1", nil, "gone")
		expect(t, s)
	})
}

func TestStateOriginDelta(t *testing.T) {
	t.Run("B11", func(t *testing.T) {
		o, s := serve(t, Delta, ClusterType, "a", "b")
		s.Subscribe(ClusterType, "a")
		first := expect(t, s, "a")
		s.Ack(first)
		o.Set("", Synthetic(ClusterType, "a", 2))
		second := expect(t, s, "a")
		s.Ack(first, "b") // stale: no ACK, but a subscription
		s.Quiet(t, short)
		s.Ack(second)
		expect(t, s, "b")
	})
	t.Run("B16 B28", func(t *testing.T) {
		o, s := serve(t, Delta, ClusterType, "a", "b", "c")
		s.Subscribe(ClusterType)
		s.Ack(expect(t, s, "a", "b", "c"))
		o.Set("", Synthetic(ClusterType, "a", 2))
		s.Nack(expect(t, s, "a"), "no")
		s.Quiet(t, short)
		o.Set("", Synthetic(ClusterType, "b", 2))
		s.Ack(expect(t, s, "a", "b"))
		o.Remove("", ClusterType, "c")
		s.Nack(expect(t, s, "-c"), "no")
		o.Set("", Synthetic(ClusterType, "b", 3))
		s.Ack(expect(t, s, "b", "-c"))
	})
	t.Run("B23 B24", func(t *testing.T) {
		o, s := serve(t, Delta, ClusterType)
		s.Subscribe(ClusterType)
		s.Ack(expect(t, s))
		s.Subscribe(ClusterType, "a")
		s.Ack(expect(t, s, "-a"))
		o.Set("", Synthetic(ClusterType, "b", 1))
		s.Ack(expect(t, s, "b"))
		s.Unsubscribe(ClusterType, "*")
		s.Quiet(t, short)
		o.Set("", Synthetic(ClusterType, "b", 2))
		s.Quiet(t, short)

		_, s = serve(t, Delta, ClusterType, "a")
		s.Send(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: ClusterType, ResourceNamesSubscribe: []string{"*"}, ResourceNamesUnsubscribe: []string{"*"},
		})
		s.Quiet(t, short)
	})
	t.Run("B33 B34", func(t *testing.T) {
		o, s := serve(t, Delta, RouteType)
		s.Subscribe(RouteType, "z")
		s.Ack(expect(t, s, "-z"))
		o.Set("", Synthetic(RouteType, "z", 1))
		s.Ack(expect(t, s, "z"))
		o.Remove("", RouteType, "z")
		s.Ack(expect(t, s, "-z"))
		s.Quiet(t, short)
	})
	t.Run("B35", func(t *testing.T) {
		_, s := serve(t, Delta, EndpointType, "a")
		s.Subscribe(EndpointType, "a")
		first := expect(t, s, "a")
		s.Ack(first)
		s.Subscribe(EndpointType, "a")
		if again := expect(t, s, "a"); again.Resources[0].Version != first.Resources[0].Version {
			t.Fatalf("resent as %s", again)
		}
	})
	t.Run("B36", func(t *testing.T) {
		_, s := serve(t, Delta, ClusterType, "a")
		s.Subscribe(ClusterType, "*", "a", "z")
		s.Ack(expect(t, s, "a", "-z"))
		s.Unsubscribe(ClusterType, "a")
		s.Ack(expect(t, s, "a"))
		s.Unsubscribe(ClusterType, "z")
		s.Ack(expect(t, s, "-z"))
		s.Unsubscribe(ClusterType, "unknown")
		s.Quiet(t, short)

		_, s = serve(t, Delta, ClusterType, "a")
		s.Subscribe(ClusterType, "a")
		s.Ack(expect(t, s, "a"))
		s.Unsubscribe(ClusterType, "a")
		s.Quiet(t, short)
	})
	t.Run("B37", func(t *testing.T) {
		_, s := serve(t, Delta, ClusterType, "a", "b", "c") // versions v1, v2, v3
		s.Resume(ClusterType, "", map[string]string{"a": "v1", "b": "old", "g": "x", "c": "v3"}, "a", "b", "g")
		s.Ack(expect(t, s, "b", "-c", "-g"))
		s.Quiet(t, short)
	})
}

// TestStateOriginViews: clients see the view of their node, and only changes
// of it.
func TestStateOriginViews(t *testing.T) {
	o := NewStateOrigin(t, (*corev3.Node).GetCluster)
	o.Set("one", Synthetic(ClusterType, "a", 1))
	o.Set("two", Synthetic(ClusterType, "b", 1))
	c := Dial(t, o.Addr())
	for _, v := range Variants(ClusterType) {
		c.Node = Node("n", "one")
		one := c.Open(v)
		one.Subscribe(ClusterType)
		one.Ack(expect(t, one, "a"))
		c.Node = Node("n", "two")
		two := c.Open(v)
		two.Subscribe(ClusterType)
		two.Ack(expect(t, two, "b"))
		o.Update("two", func(c *Change) {
			c.Set(Synthetic(ClusterType, "b", 2))
			c.Set(Synthetic(EndpointType, "b", 2))
		})
		two.Ack(expect(t, two, "b"))
		one.Quiet(t, short)
	}
}

// TestStateOriginRefusals: requests that make no sense end the stream (A5).
func TestStateOriginRefusals(t *testing.T) {
	o := NewStateOrigin(t, nil)
	c := Dial(t, o.Addr())
	for v, typeURL := range map[Variant]string{SotW: "", Delta: "", {Service: ClusterType}: EndpointType} {
		s := c.Open(v)
		s.Subscribe(typeURL)
		if got := s.ExpectClosed(t); got.Code() != codes.InvalidArgument {
			t.Errorf("%s asked for %q ended with %v", v, typeURL, got)
		}
	}
	s := c.Open(Variant{Service: ClusterType})
	s.Subscribe("") // means the service's type
	expect(t, s)
}

// TestStateOriginSettles: settled is what has been sent and answered.
func TestStateOriginSettles(t *testing.T) {
	for _, v := range []Variant{SotW, Delta} {
		o, s := serve(t, v, ClusterType, "a")
		if !o.Settle(0) {
			t.Fatal("not settled without any client")
		}
		s.Subscribe(ClusterType)
		f := expect(t, s, "a")
		if o.Settle(short) {
			t.Fatal("settled without an answer")
		}
		s.Ack(f)
		if !o.Settle(Patience) {
			t.Fatal("not settled after the answer")
		}
		o.Set("", Synthetic(ClusterType, "a", 2))
		if o.Settle(short) {
			t.Fatal("settled after a change without an answer")
		}
		s.Cancel()
		if !o.Settle(Patience) {
			t.Fatal("not settled although nobody is there")
		}
	}
}
