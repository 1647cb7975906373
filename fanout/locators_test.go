package fanout

import (
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

func locators(names ...string) (out []*discoveryv3.ResourceLocator) {
	for _, n := range names {
		out = append(out, &discoveryv3.ResourceLocator{Name: n, DynamicParameters: map[string]string{"env": "prod"}})
	}
	return out
}

// located is a request with resource locators.
func (w *world) located(delta bool, typeURL, nonce string, names, variants []string) proto.Message {
	if delta {
		return &deltaRequest{
			Node: w.conn.Node, TypeUrl: typeURL, ResponseNonce: nonce,
			ResourceNamesSubscribe: names, ResourceLocatorsSubscribe: locators(variants...),
		}
	}
	return &discoveryv3.DiscoveryRequest{
		Node: w.conn.Node, TypeUrl: typeURL, ResponseNonce: nonce, ResourceNames: names, ResourceLocators: locators(variants...),
	}
}

// refuses fails the test unless the frame just refuses the variants.
func refuses(t *testing.T, f *xdstest.Frame, variants ...string) *xdstest.Frame {
	t.Helper()
	var got []string
	for _, e := range f.Errors {
		got = append(got, e.GetResourceName().GetName())
		c := e.GetResourceName().GetDynamicParameterConstraints().GetConstraint()
		if e.GetErrorDetail().GetCode() != int32(codes.Unimplemented) || c.GetKey() != "env" || c.GetValue() != "prod" {
			t.Errorf("the error %v", e)
		}
	}
	if !slices.Equal(got, variants) || len(f.Resources)+len(f.Removed) > 0 || f.Version == "" {
		t.Fatalf("expected errors about %q alone: %v", variants, f)
	}
	return f
}

// TestLocators: G9: a client that requests variants is sent errors for them, once, and is neither
// served nor subscribed to the resource of the bare name; names in the same request count.
func TestLocators(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Send(w.located(delta, eds, "", []string{"a"}, []string{"x", "y"}))
		f := refuses(t, s.Recv(t), "x", "y")
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1), endpoints("x", 1))
		s.Quiet(t, short) // B9
		s.Send(w.located(delta, eds, f.Nonce, []string{"a"}, []string{"x", "y"}))
		f = has(t, s.Recv(t), "a")
		s.Send(w.located(delta, eds, f.Nonce, []string{"a"}, []string{"x", "y"}))
		s.Quiet(t, short) // the same again with each answer is no question
		s.Send(w.located(delta, eds, f.Nonce, []string{"a"}, []string{"z"}))
		f = s.Recv(t)
		if delta && len(f.Errors) == 0 {
			has(t, f, "a") // B35
			f = s.Recv(t)
		}
		refuses(t, f, "z")
	})
}

// TestLocatorsAreNoWildcard: G9, B20, B23: a first message with nothing but
// locators is not an empty one, also where these are to be dropped.
func TestLocatorsAreNoWildcard(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		s.Send(w.located(true, cds, "", nil, []string{"x"}))
		refuses(t, s.Recv(t), "x")
		s.Send(&deltaRequest{TypeUrl: lds, ResourceLocatorsUnsubscribe: locators("x")})
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		w.asked(cds)
		w.asked(lds)
	})
}

// TestLocatorsOfFullState: G9, B32: a SotW response that holds errors alone would
// say that nothing exists, so the stream is ended instead.
func TestLocatorsOfFullState(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Send(w.located(false, cds, "", []string{"a"}, []string{"x"}))
		refusedWith(t, s, codes.InvalidArgument, "locators")
	})
}

// TestRefusedLocatorsChangeNothing: B14, B16: what a client thinks of errors says
// nothing of the resources that it was sent before.
func TestRefusedLocatorsChangeNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, rejects := range []bool{false, true} {
			w := newWorld(t, func(c *Config) { c.AckTimeout = time.Minute })
			s := w.open(true)
			s.Subscribe(eds, "a", "b")
			w.asked(eds, "a", "b")
			w.change(eds, nil, endpoints("a", 1))
			s.Nack(has(t, s.Recv(t), "a"), "no")
			s.Send(w.located(true, eds, "", nil, []string{"x"}))
			f := refuses(t, s.Recv(t), "x")
			if rejects {
				s.Nack(f, "no errors please")
			} else {
				s.Ack(f)
			}
			s.Quiet(t, short) // B14
			w.change(eds, nil, endpoints("b", 1))
			s.Ack(has(t, s.Recv(t), "a", "b")) // B16
		}
	})
}
