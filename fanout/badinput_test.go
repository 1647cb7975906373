package fanout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

// sendRaw opens a stream, sends encoded requests and returns the status of the stream. It ignores
// responses.
func (w *world) sendRaw(t *testing.T, delta bool, requests ...[]byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	s, err := w.conn.ClientConn().NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		xdstest.Variant{Delta: delta}.Method(), grpc.ForceCodec(rawCodec{}))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	for _, r := range requests {
		if err := s.SendMsg(r); err != nil {
			break
		}
	}
	for {
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			return err
		}
	}
}

// A malformed request, first or later, ends its stream with a status that says so, and affects
// nothing else on the node.
func TestMalformedRequests(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		good := w.open(delta)
		good.Subscribe(cds)
		w.asked(cds, "*")
		var first proto.Message = &discoveryv3.DiscoveryRequest{Node: w.conn.Node, TypeUrl: cds}
		if delta {
			first = &deltaRequest{Node: w.conn.Node, TypeUrl: cds}
		}
		valid, err := proto.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		for what, garbage := range map[string][]byte{
			"noise":           []byte("\xff\xff\xff\xff not a message"),
			"cut short":       valid[:len(valid)-3],
			"not UTF-8":       {0x22, 2, 0xff, 0xfe, 0x12, 2, 0xff, 0xfe},
			"node is no node": {0x12, 2, 0xff, 0xff, 0x0a, 2, 0xff, 0xff},
			"empty":           {},
		} {
			err := w.sendRaw(t, delta, garbage)
			if status.Code(err) != codes.InvalidArgument || len(status.Convert(err).Message()) < 10 {
				t.Errorf("%s as the first request: %v", what, err)
			}
			if what == "node is no node" {
				continue // later Nodes are ignored
			}
			if err := w.sendRaw(t, delta, valid, garbage); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s as the second request: %v", what, err)
			}
		}
		w.serve("v1", cds, cluster("a", 1))
		good.Ack(has(t, good.Recv(t), "a"))
		good.Quiet(t, short)
	})
}

// TestNodeNesting: a Node that is nested more deeply than most protobuf libraries decode is
// refused. The control plane could not decode the request with it and would end the stream of all
// clients of the key.
func TestNodeNesting(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		nested := func(levels int) *corev3.Node {
			value := structpb.NewStringValue("x")
			for range levels {
				value = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{value}})
			}
			n := proto.CloneOf(w.conn.Node)
			n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"deep": value}}
			return n
		}
		request := func(n *corev3.Node) []byte {
			var r proto.Message = &discoveryv3.DiscoveryRequest{Node: n, TypeUrl: cds}
			if delta {
				r = &deltaRequest{Node: n, TypeUrl: cds}
			}
			b, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if err := w.sendRaw(t, delta, request(nested(resource.MaxNesting))); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "recursion") {
			t.Errorf("a deep node: %v", err)
		}
		w.conn.Node = nested(resource.MaxNesting/2 - 10)
		w.open(delta).Subscribe(cds)
		w.asked(cds, "*")
	})
}

// A message over the limit is refused as such (B40).
func TestOversizeRequest(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.MaxReceiveBytes = 10_000 })
		s := w.open(delta)
		s.Subscribe(eds, strings.Repeat("x", 20_000))
		refusedWith(t, s, codes.ResourceExhausted, "larger than max")
		ok := w.open(delta)
		ok.Subscribe(eds, strings.Repeat("x", 5_000))
		ok.Quiet(t, short)
	})
}

// Names per stream are bounded: in one request, over types, over requests, and including names that
// must still be sent. Names that are refused at once are not subscribed upstream.
func TestTooManyNames(t *testing.T) {
	names := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.MaxNames = 100 })
		full := w.open(delta)
		full.Subscribe(eds, names(0, 100)...)
		w.asked(eds, names(0, 100)...)

		at := w.open(delta)
		at.Subscribe(eds, names(0, 101)...)
		refusedWith(t, at, codes.ResourceExhausted, "the limit is 100")
		w.asked(eds, names(0, 100)...)

		over := w.open(delta)
		over.Subscribe(eds, names(0, 60)...)
		over.Subscribe(rds, names(0, 60)...)
		refusedWith(t, over, codes.ResourceExhausted, "120 names")

		full.Unsubscribe(eds, names(0, 50)...)
		full.Subscribe(eds, names(100, 150)...) // as many as before
		full.Quiet(t, short)
		full.Subscribe(eds, names(150, 151)...)
		refusedWith(t, full, codes.ResourceExhausted, "101 names")
	})
	t.Run("never acknowledged", func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.MaxNames = 100 })
		s := w.open(true)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("", cds, cluster("a", 1))
		s.Recv(t)
		for i := range 20 { // the removal of each must be sent (B36)
			s.Subscribe(cds, names(i*10, i*10+10)...)
			s.Unsubscribe(cds, names(i*10, i*10+10)...)
		}
		refusedWith(t, s, codes.ResourceExhausted, "the limit is 100")
	})
}

// Types per stream are bounded.
func TestTooManyTypes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(true)
		for i := range maxTypes + 1 {
			s.Subscribe(resource.TypePrefix+fmt.Sprintf("x.T%d", i), "a")
		}
		refusedWith(t, s, codes.ResourceExhausted, "types")
	})
}

// Many streams that invent types use up a key's room for types, and no more: types of the protocol
// are always served.
func TestTooManyTypesOfAKey(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		open := 0 // types in use
		for i := range 4 {
			s := w.open(true)
			for j := range maxTypes {
				s.Subscribe(resource.TypePrefix+fmt.Sprintf("x.T%d.%d", i, j), "a")
			}
			open += maxTypes
			xdstest.Eventually(t, "the types to be accepted", func() bool {
				n := 0
				for _, st := range w.srv.Streams() {
					n += len(st.Types)
				}
				return n == open
			})
		}
		s := w.open(true)
		s.Subscribe(resource.TypePrefix+"x.OneMore", "a")
		refusedWith(t, s, codes.ResourceExhausted, "resource types asked for by the clients of this key")
		s = w.open(true)
		s.Subscribe(cds, "a")
		w.asked(cds, "a")
		w.change(cds, nil, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
	})
}

// A stream without a request ends; one that had a request may be silent indefinitely.
func TestFirstRequestTimeout(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.FirstRequestTimeout = 2 * short })
		spoke, silent := w.open(true), w.open(true)
		spoke.Subscribe(cds)
		refusedWith(t, silent, codes.DeadlineExceeded, "first-request")
		spoke.Quiet(t, 2*short)
	})
}

// A request that arrives just after the timeout is refused.
func TestFirstRequestAtTheLastMoment(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newSilentWorld(t, func(c *Config) { c.FirstRequestTimeout = time.Nanosecond })
		c := w.openFake(form{delta: true})
		<-c.call.done
		if err := c.say(t, &deltaRequest{Node: xdstest.Node("n", "k"), TypeUrl: cds}); err != nil {
			t.Errorf("the request was refused: %v", err)
		}
		if err := c.end(); !errors.Is(err, errNoRequest) {
			t.Fatalf("the stream ended %v", err)
		}
	})
}

// A failed send ends the stream, even if a receive would succeed.
func TestFailedSendEndsTheStream(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newSilentWorld(t)
		c := w.openFake(form{delta: true})
		c.call.fails = status.Error(codes.Internal, "cannot be sent")
		if err := c.say(t, &deltaRequest{Node: xdstest.Node("n", "k"), TypeUrl: cds}); err != nil {
			t.Fatalf("the request was refused: %v", err)
		}
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		if err := c.end(); !errors.Is(err, c.call.fails) {
			t.Fatalf("the stream ended %v", err)
		}
		if c.call.sent != 1 {
			t.Errorf("%d messages were sent, expected none after the failure", c.call.sent)
		}
	})
}

// The client ends its stream, half-closed or reset: all its state is freed.
func TestClientLeaves(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s, reset := w.open(delta), w.open(delta)
		s.Subscribe(cds)
		reset.Subscribe(eds, "a")
		w.asked(cds, "*")
		w.asked(eds, "a")
		reset.Cancel()
		s.CloseSend()
		if st := s.ExpectClosed(t); st.Code() != codes.OK {
			t.Fatalf("a half-closed stream ended %v", st)
		}
		xdstest.Eventually(t, "both streams to go", func() bool {
			g := w.cache.GroupInfos()
			return len(w.srv.Streams()) == 0 && g[0].Clients == 0 && g[0].Tables[0].Watchers+g[0].Tables[1].Watchers == 0
		})
	})
}
