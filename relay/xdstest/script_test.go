package xdstest

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/xdsclient"
)

const short = 50 * time.Millisecond

// TestScriptedConversation runs client and origin against each other in every
// variant: first what each sends is what the other sees, then who remembers
// what.
func TestScriptedConversation(t *testing.T) {
	for _, v := range Variants(ClusterType) {
		t.Run(v.String(), func(t *testing.T) {
			o := NewOrigin(t)
			c := Dial(t, o.Addr())
			s := c.Open(v)
			s.Subscribe(ClusterType, "a", "b")
			st := o.NextStream(t)
			if st.Variant != v {
				t.Fatalf("origin saw a stream of %s", st.Variant)
			}
			r := st.NextRequest(t)
			names := r.Names
			if v.Delta {
				names = r.Subscribe
			}
			if xdsclient.Brief(names) != "[a b]" || r.Node.GetId() != "test-client" || r.Nonce != "" || r.Version != "" || r.IsAck() {
				t.Fatalf("first request: %s", r)
			}

			nonce := st.Respond(t, ClusterType, "1", Cluster("a", time.Second), Cluster("b", time.Second))
			f := s.Recv(t)
			if f.Nonce != nonce || f.Version != "1" || f.TypeURL != ClusterType || xdsclient.Brief(f.Names()) != "[a b]" {
				t.Fatalf("frame: %s", f)
			}
			a, _ := f.Get("a")
			got := &clusterv3.Cluster{}
			if err := a.Decode(got); err != nil || got.GetConnectTimeout().AsDuration() != time.Second || a.Version != "1" {
				t.Fatalf("resource a: %v, %v", got, err)
			}
			s.Ack(f)
			if r = st.NextRequest(t); !r.IsAck() || r.Nonce != nonce || r.Node != nil || !v.Delta && (r.Version != "1" || xdsclient.Brief(r.Names) != "[a b]") {
				t.Fatalf("ACK: %s", r)
			}

			nonce = st.Respond(t, ClusterType, "2", Cluster("a", 2*time.Second))
			s.Nack(s.Recv(t), "no such luck", "c")
			r = st.NextRequest(t)
			if !r.IsNack() || r.Error.GetMessage() != "no such luck" || r.Error.GetCode() != int32(codes.InvalidArgument) || r.Nonce != nonce {
				t.Fatalf("NACK: %s", r)
			}
			if v.Delta && xdsclient.Brief(r.Subscribe) != "[c]" || !v.Delta && (r.Version != "1" || xdsclient.Brief(r.Names) != "[a b c]") {
				t.Fatalf("NACK: %s", r)
			}

			s.Unsubscribe(ClusterType, "a")
			r = st.NextRequest(t)
			if v.Delta && (xdsclient.Brief(r.Unsubscribe) != "[a]" || r.Nonce != "") || !v.Delta && (r.Nonce != nonce || xdsclient.Brief(r.Names) != "[b c]") {
				t.Fatalf("unsubscribe: %s", r)
			}
			s.Quiet(t, short)
			st.Quiet(t, short)
			if v.Delta {
				st.RespondRemoved(t, ClusterType, "3", "b", "c")
				if f = s.RecvType(t, ClusterType); xdsclient.Brief(f.Removed) != "[b c]" {
					t.Fatalf("removal: %s", f)
				}
			}
			if n := len(st.Requests()); n != 4 {
				t.Fatalf("%d requests recorded", n)
			}
			st.Close(status.New(codes.Unavailable, "gone fishing"))
			if got := s.ExpectClosed(t); got.Code() != codes.Unavailable || got.Message() != "gone fishing" {
				t.Fatalf("closed with %v", got)
			}
			st.WaitClosed(t)
			if err := st.Send(&discoveryv3.DiscoveryResponse{}); err == nil {
				t.Fatalf("sending on an ended stream was no error")
			}
		})
	}
}

// TestResume: what a client that comes back quotes.
func TestResume(t *testing.T) {
	o := NewOrigin(t)
	c := Dial(t, o.Addr())
	c.Open(SotW).Resume(EndpointType, "7", map[string]string{"a": "x"}, "a")
	if r := o.NextStream(t).NextRequest(t); r.Version != "7" || r.Nonce != "" || xdsclient.Brief(r.Names) != "[a]" {
		t.Fatalf("sotw: %s", r)
	}
	c.Open(Delta).Resume(EndpointType, "7", map[string]string{"a": "x"}, "a")
	if r := o.NextStream(t).NextRequest(t); r.Initial["a"] != "x" || xdsclient.Brief(r.Subscribe) != "[a]" {
		t.Fatalf("delta: %s", r)
	}
}

// TestWrappedAndNamedResources: envelopes are opened on SotW and kept on delta.
func TestWrappedAndNamedResources(t *testing.T) {
	o := NewOrigin(t)
	c := Dial(t, o.Addr())
	s := c.Open(SotW)
	s.Subscribe(ClusterType)
	st := o.NextStream(t)
	wrapped := &discoveryv3.Resource{Name: "w", Ttl: durationpb.New(30 * time.Second), Resource: Any(Cluster("w", 0))}
	if err := st.Send(&discoveryv3.DiscoveryResponse{
		TypeUrl: ClusterType, VersionInfo: "1", Nonce: "x",
		Resources: []*anypb.Any{Any(wrapped), Any(Cluster("bare", 0))},
	}); err != nil {
		t.Fatal(err)
	}
	f := s.Recv(t)
	w, _ := f.Get("w")
	if w.TTL != 30*time.Second || w.Wrapper == nil || w.Body.GetTypeUrl() != ClusterType {
		t.Fatalf("wrapped resource: %+v", w)
	}
	if b, ok := f.Get("bare"); !ok || b.Wrapper != nil || b.TTL != 0 {
		t.Fatalf("bare resource: %+v", b)
	}

	d := c.Open(Variant{Delta: true, Service: VirtualHostType})
	d.Subscribe(VirtualHostType, "rc/h")
	o.NextStream(t).Respond(t, VirtualHostType, "1", Named{Name: "rc/h", Message: VirtualHost("h", "c", "h")})
	if _, ok := d.Recv(t).Get("rc/h"); !ok {
		t.Fatalf("named resource did not arrive%s", d.Transcript())
	}
}

// TestOriginRestart: a stopped origin cuts and refuses, and comes back at its
// address.
func TestOriginRestart(t *testing.T) {
	o := NewOrigin(t)
	c := Dial(t, o.Addr())
	s := c.Open(Delta)
	s.Subscribe(ClusterType)
	o.NextStream(t)
	o.Stop()
	if got := s.ExpectClosed(t); got.Code() != codes.Unavailable {
		t.Fatalf("cut stream ended with %v", got)
	}
	o.NoStream(t, short)
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	c.Open(SotW).Subscribe(ClusterType)
	if st := o.NextStream(t); st.NextRequest(t).Node == nil {
		t.Fatalf("no node%s", o.Transcript())
	}
	if n := len(o.Streams()); n != 2 {
		t.Fatalf("%d streams recorded", n)
	}
}

// TestStopReading: a client that does not read takes nothing but what it had
// already begun to take.
func TestStopReading(t *testing.T) {
	o := NewOrigin(t)
	s := Dial(t, o.Addr()).Open(SotW)
	s.Subscribe(ClusterType)
	st := o.NextStream(t)
	s.StopReading()
	for range 5 {
		st.Respond(t, ClusterType, "1", Cluster("a", 0))
	}
	s.Recv(t) // the receiver was already waiting for this one
	s.Quiet(t, short)
	s.StartReading()
	for range 4 {
		s.Recv(t)
	}
}

// TestChecksFail: every check can fail, and shows what was said.
func TestChecksFail(t *testing.T) {
	o := NewOrigin(t)
	s := Dial(t, o.Addr()).Open(SotW)
	s.Subscribe(ClusterType, "a")
	st := o.NextStream(t)
	for range 2 {
		st.Respond(t, ClusterType, "1", Cluster("a", 0))
	}
	for what, check := range map[string]func(TB){
		"client quiet":      func(t TB) { s.Quiet(t, short) },
		"client quiet type": func(t TB) { s.QuietType(t, ClusterType, short) },
		"origin quiet":      func(t TB) { st.Quiet(t, short) },
		"no stream": func(t TB) {
			Dial(t, o.Addr()).Open(SotW)
			o.NoStream(t, Patience)
		},
	} {
		msg := mustFail(t, check)
		if !strings.Contains(msg, "conversation of") || !strings.Contains(msg, `Cluster version="1"`) {
			t.Errorf("%s: message does not show the conversation: %s", what, msg)
		}
	}
	st.Close(nil)
	for what, check := range map[string]func(TB){
		"recv at end":         func(t TB) { s.Recv(t) },
		"quiet at end":        func(t TB) { s.Quiet(t, short) },
		"origin next at end":  func(t TB) { st.NextRequest(t) },
		"origin quiet at end": func(t TB) { st.Quiet(t, short) },
	} {
		if msg := mustFail(t, check); !strings.Contains(msg, "ended") {
			t.Errorf("%s: %s", what, msg)
		}
	}
	if got := s.ExpectClosed(t); got.Code() != codes.OK {
		t.Errorf("plain end is %v", got)
	}
}

// TestMethods: the names of table A-1, and a name that is none of them.
func TestMethods(t *testing.T) {
	for v, want := range map[Variant]string{
		SotW:                                    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
		Delta:                                   "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
		{Service: ScopedRouteType}:              "/envoy.service.route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes",
		{Delta: true, Service: VirtualHostType}: "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts",
		{Service: VirtualHostType}:              "",
		{Service: ThriftRouteType}:              "",
	} {
		if got := v.Method(); got != want {
			t.Errorf("%s: method %q, want %q", v, got, want)
		}
	}
	s := Dial(t, NewOrigin(t).Addr()).OpenMethod("/envoy.service.route.v3.ScopedRouteDiscoveryService/StreamScopedRoutes", false)
	if got := s.ExpectClosed(t); got.Code() != codes.Unimplemented {
		t.Errorf("unknown service ended with %v", got)
	}
}
