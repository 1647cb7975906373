package fanout

import (
	"context"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// A1, A4: every service and method of table A-1 exists and serves its type, on ADS and on its own,
// and the bodies arrive unchanged (D2).
func TestEveryService(t *testing.T) {
	for _, typ := range resource.Known() {
		if typ.URL == resource.ThriftRouteURL || typ.URL == resource.RateLimitURL || typ.DeltaOnly() {
			continue // the test kit has no messages of these, or the envelope has their name
		}
		each(t, typ.URL, func(t *testing.T, v xdstest.Variant) {
			w := newWorld(t)
			s := w.conn.Open(v)
			s.Subscribe(typ.URL, "a")
			w.asked(typ.URL, "a")
			m := xdstest.Synthetic(typ.URL, "a", 1)
			w.serve("v1", typ.URL, m)
			f := has(t, s.Recv(t), "a")
			s.Ack(f)
			if r, _ := f.Get("a"); f.TypeURL != typ.URL || r.Body.GetTypeUrl() != typ.URL { // A1
				t.Fatalf("type URLs are %q and %q, expected %q", f.TypeURL, r.Body.GetTypeUrl(), typ.URL)
			} else if !proto.Equal(r.Body, xdstest.Any(m)) { // D2
				t.Fatal("the body changed on its way")
			}
		})
	}
}

// A4, D8: VHDS and LEDS are named by their envelope and have delta methods only, and SotW clients
// get nothing of them.
func TestDeltaOnlyServices(t *testing.T) {
	for _, url := range []string{resource.VirtualHostURL, resource.LbEndpointURL} {
		for _, v := range xdstest.Variants(url) {
			if !v.Delta {
				continue
			}
			t.Run(v.String()+url, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					w := newWorld(t)
					s := w.conn.Open(v)
					s.Subscribe(url, "rc/a")
					w.asked(url, "rc/a")
					w.named(url, "rc/a", xdstest.Synthetic(url, "a", 1))
					has(t, s.Recv(t), "rc/a")
				})
			})
		}
	}
	w := newWorld(t)
	s := w.open(false) // D8: there is no SotW form, so SotW gets silence
	s.Subscribe(resource.VirtualHostURL, "rc/a")
	s.Subscribe(cds)
	w.asked(cds, "*")
	w.serve("v1", cds, cluster("c", 1))
	has(t, s.Recv(t), "c")
	s.QuietType(t, resource.VirtualHostURL, short)
}

// A4: the methods are exactly those that the protos declare.
func TestMethodsAreThoseOfTheProtos(t *testing.T) {
	gs := grpc.NewServer()
	(&Server{}).Register(gs)
	for name, info := range gs.GetServiceInfo() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want, got []string
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			want = append(want, string(methods.Get(i).Name()))
		}
		for _, m := range info.Methods {
			got = append(got, m.Name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, expected %v", name, got, want)
		}
		if info.Metadata != d.ParentFile().Path() {
			t.Errorf("%s is said to be declared in %v, not %s", name, info.Metadata, d.ParentFile().Path())
		}
	}
	if n := len(gs.GetServiceInfo()); n != 12 {
		t.Errorf("%d services, expected 12", n)
	}
}

// A4: the singular spelling does not exist; unary methods are for REST only.
func TestWhatIsNotServed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.conn.OpenMethod("/envoy.service.route.v3.ScopedRouteDiscoveryService/StreamScopedRoutes", false)
		if st := s.ExpectClosed(t); st.Code() != codes.Unimplemented {
			t.Fatalf("ended %v", st)
		}
		err := w.conn.ClientConn().Invoke(t.Context(), "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
			&discoveryv3.DiscoveryRequest{}, &discoveryv3.DiscoveryResponse{})
		if status.Code(err) != codes.Unimplemented {
			t.Fatalf("a unary fetch ended %v", err)
		}
		if _, err := fetchUnimplemented(nil, context.Background(), nil, nil); status.Convert(err).Message() == "" {
			t.Fatal("the refusal does not say why")
		}
	})
}

// A5: a type's own service needs no type_url and accepts no other; ADS needs one.
func TestTypeURLOfRequests(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		request := func(url string, names ...string) proto.Message {
			if delta {
				return &discoveryv3.DeltaDiscoveryRequest{Node: w.conn.Node, TypeUrl: url, ResourceNamesSubscribe: names}
			}
			return &discoveryv3.DiscoveryRequest{Node: w.conn.Node, TypeUrl: url, ResourceNames: names}
		}
		own := w.conn.Open(xdstest.Variant{Delta: delta, Service: cds})
		own.Send(request(""))
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		has(t, own.Recv(t), "a")

		wrong := w.conn.Open(xdstest.Variant{Delta: delta, Service: cds})
		wrong.Send(request(eds, "a"))
		refusedWith(t, wrong, codes.InvalidArgument, eds)

		ads := w.open(delta)
		ads.Send(request(""))
		refusedWith(t, ads, codes.InvalidArgument, "type_url")
		own.Quiet(t, short) // the end of others does not affect this stream
	})
}
