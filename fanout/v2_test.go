package fanout

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/resource/v2types"
	"xdsrelay/relay/xdstest"
)

func withV2(c *Config) { c.V2 = true }

// changeV2 applies a response of a delta control plane in version 2 types.
func (w *world) changeV2(rs ...*discoveryv3.Resource) {
	w.t.Helper()
	w.sayV2(rs[0].Resource.TypeUrl, rs...)
}

func (w *world) sayV2(typeURL string, rs ...*discoveryv3.Resource) {
	w.t.Helper()
	b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Resources: rs})
	if err != nil {
		w.t.Fatalf("marshal: %v", err)
	}
	r, err := resource.DecodeDelta(b)
	if err != nil || len(r.Resources) != len(rs) {
		w.t.Fatalf("decode: %v: %v", err, r)
	}
	w.origin().Apply(cache.Update{Type: r.Type, Resources: r.Resources})
}

// inV2 returns a resource of version 2.
func inV2(name string, m proto.Message) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Resource: xdstest.V2(m)}
}

// bothV2 runs f for the two variants of version 2 on ADS.
func bothV2(t *testing.T, f func(t *testing.T, v xdstest.Variant)) {
	for _, v := range []xdstest.Variant{{V2: true}, {V2: true, Delta: true}} {
		t.Run(v.String(), func(t *testing.T) {
			virtual(t, func(t *testing.T) { f(t, v) })
		})
	}
}

// J1: unless configured, nothing of version 2 is served; CSDS of version 2 never is.
func TestV2IsOff(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		for _, typ := range resource.KnownV2() {
			for _, v := range xdstest.Variants(typ.URL) {
				if st := w.conn.Open(v).ExpectClosed(t); st.Code() != codes.Unimplemented {
					t.Errorf("%s ended %v", v, st)
				}
			}
		}
		on := newWorld(t, withV2)
		s := on.conn.OpenMethod("/envoy.service.status.v2.ClientStatusDiscoveryService/StreamClientStatus", false)
		if st := s.ExpectClosed(t); st.Code() != codes.Unimplemented {
			t.Errorf("client status ended %v", st)
		}
	})
}

// J1, J2, A1: every service of version 2 serves its type, on ADS and on its own, with the type URL
// of version 2 throughout.
func TestEveryServiceV2(t *testing.T) {
	for _, typ := range resource.KnownV2() {
		each(t, typ.URL, func(t *testing.T, v xdstest.Variant) {
			if !v.Delta && typ.DeltaOnly() {
				t.Skip("has no SotW form")
			}
			w := newWorld(t, withV2)
			s := w.conn.Open(v)
			s.Subscribe(typ.URL, "a")
			w.asked(typ.URL, "a")
			for _, u := range resource.Known() {
				if xdstest.V2TypeOf(u.URL) == typ.URL {
					w.changeV2(inV2("a", xdstest.Synthetic(u.URL, "a", 1)))
				}
			}
			f := s.Recv(t)
			if len(f.Resources) != 1 || f.TypeURL != typ.URL || f.Resources[0].Body.GetTypeUrl() != typ.URL {
				t.Fatalf("got %v", f)
			}
			s.Ack(f)
			w.settled(typ.URL, Synced)
		})
	}
}

// J1: the methods are exactly those that the protos of version 2 declare.
func TestMethodsOfV2(t *testing.T) {
	files, err := v2types.Files()
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer()
	(&Server{cfg: Config{V2: true}}).Register(gs)
	n := 0
	for name, info := range gs.GetServiceInfo() {
		if !strings.Contains(name, "v2.") {
			continue
		}
		n++
		d, err := files.FindDescriptorByName(protoreflect.FullName(name))
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
		if !slices.Equal(got, want) || info.Metadata != d.ParentFile().Path() {
			t.Errorf("%s in %v has %v, expected %v in %s", name, info.Metadata, got, want, d.ParentFile().Path())
		}
	}
	if n != 9 {
		t.Errorf("%d services, expected 9", n)
	}
}

// J2: a method of one version accepts no types of the other, and version 2 accepts no types that it
// never had; nothing else is affected.
func TestVersionsDoNotMix(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, delta := range []bool{false, true} {
			w := newWorld(t, withV2)
			good := w.conn.Open(xdstest.Variant{Delta: delta, V2: true})
			good.Subscribe(resource.ClusterV2URL)
			w.wildcards(resource.ClusterV2URL, 1)
			for _, c := range []struct {
				v2  bool
				url string
			}{{true, cds}, {true, resource.ExtensionURL}, {true, "x.Y"}, {false, resource.ClusterV2URL}, {false, resource.RuntimeV2URL}} {
				s := w.conn.Open(xdstest.Variant{Delta: delta, V2: c.v2})
				s.Subscribe(c.url, "a")
				refusedWith(t, s, codes.InvalidArgument, c.url)
			}
			own := w.conn.Open(xdstest.Variant{Delta: delta, V2: true, Service: resource.ClusterV2URL})
			own.Subscribe(cds)
			refusedWith(t, own, codes.InvalidArgument, cds)
			good.Quiet(t, short)
		}
		off := newWorld(t).open(true) // also if version 2 is not served
		off.Subscribe(resource.ClusterV2URL)
		refusedWith(t, off, codes.InvalidArgument, "xDS v2")
	})
}

// J2, A5: on a service of version 2 an empty type_url means its type.
func TestTypeURLOfV2Requests(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, withV2)
		s := w.conn.Open(xdstest.Variant{V2: true, Service: resource.ClusterV2URL})
		s.Send(&discoveryv3.DiscoveryRequest{Node: w.conn.Node})
		w.asked(resource.ClusterV2URL, "*")
		w.changeV2(inV2("a", cluster("a", 1)))
		has(t, s.Recv(t), "a")
		ads := w.conn.Open(xdstest.Variant{V2: true})
		ads.Send(&discoveryv3.DiscoveryRequest{Node: w.conn.Node})
		refusedWith(t, ads, codes.InvalidArgument, "type_url")
	})
}

// J3: responses of version 2 have no field that version 2 does not have, and a Node with a
// build_version, or with fields of a later version, is accepted.
func TestWhatV2Lacks(t *testing.T) {
	files, err := v2types.Files()
	if err != nil {
		t.Fatal(err)
	}
	bothV2(t, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t, withV2)
		w.conn.Node.ClientFeatures = []string{"xds.config.supports-resource-ttl", "xds.config.resource-in-sotw"}
		w.conn.Node.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), "v1.8/Clean")) // build_version
		s := w.conn.Open(v)
		first := proto.Message(&discoveryv3.DiscoveryRequest{
			Node: w.conn.Node, TypeUrl: resource.EndpointV2URL, ResourceNames: []string{"a"}, ResourceLocators: []*discoveryv3.ResourceLocator{{Name: "z"}},
		})
		name := protoreflect.FullName("envoy.api.v2.DiscoveryResponse")
		if v.Delta {
			first = &discoveryv3.DeltaDiscoveryRequest{
				Node: w.conn.Node, TypeUrl: resource.EndpointV2URL, ResourceNamesSubscribe: []string{"a"}, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{{Name: "z"}},
			}
			name = "envoy.api.v2.DeltaDiscoveryResponse"
		}
		s.Send(first)
		w.asked(resource.EndpointV2URL, "a")
		r := inV2("a", endpoints("a", 1))
		r.Ttl, r.Metadata, r.CacheControl = durationpb.New(time.Hour), &corev3.Metadata{}, &discoveryv3.Resource_CacheControl{}
		r.Aliases = []string{"b"}
		w.changeV2(r)
		f := has(t, s.Recv(t), "a")
		if f.Resources[0].Wrapper.GetTtl() != nil || v.Delta && !slices.Equal(f.Resources[0].Aliases, r.Aliases) {
			t.Errorf("got %v", f.Raw)
		}
		b, err := proto.Marshal(f.Raw)
		if err != nil {
			t.Fatal(err)
		}
		d, err := files.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
		if err := proto.Unmarshal(b, m); err != nil {
			t.Fatal(err)
		}
		again, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.GetUnknown()) > 0 || len(again) != len(b) {
			t.Errorf("fields that version 2 does not have: %x of %x", m.GetUnknown(), b)
		}
		m.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			if f.Name() == "resources" && v.Delta && len(value.List().Get(0).Message().GetUnknown()) > 0 {
				t.Errorf("fields that version 2 does not have: %v", value)
			}
			return true
		})
		s.Ack(f)
		w.settled(resource.EndpointV2URL, Synced)
		w.sayV2(resource.EndpointV2URL, &discoveryv3.Resource{Name: "a", Ttl: durationpb.New(2 * time.Hour)})
		s.Quiet(t, short) // a heartbeat, of which nothing would be left
	})
}

// J4: one name in both versions is two resources: subscribed and sent separately.
func TestVersionsAreApart(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, withV2)
		two, three := w.conn.Open(xdstest.Variant{V2: true, Delta: true}), w.open(true)
		two.Subscribe(resource.ClusterV2URL, "c")
		three.Subscribe(cds, "c")
		w.asked(resource.ClusterV2URL, "c")
		w.asked(cds, "c")
		w.change(cds, nil, cluster("c", 3))
		three.Ack(has(t, three.Recv(t), "c"))
		two.Quiet(t, short)
		w.changeV2(inV2("c", cluster("c", 2)))
		two.Ack(has(t, two.Recv(t), "c"))
		three.Quiet(t, short)
		w.change(cds, []string{"c"})
		hasRemoved(t, three.Recv(t), []string{"c"})
		two.Quiet(t, short)
	})
}

// E3, E1: the endpoints of a cluster of version 2 follow it.
func TestEndpointsFollowClustersOfV2(t *testing.T) {
	bothV2(t, func(t *testing.T, v xdstest.Variant) {
		w := newWorld(t, withV2)
		s := w.conn.Open(v)
		s.Subscribe(resource.EndpointV2URL, "c")
		s.Subscribe(resource.ClusterV2URL)
		w.asked(resource.EndpointV2URL, "c")
		w.asked(resource.ClusterV2URL, "*")
		w.changeV2(inV2("c", cluster("c", 1)))
		s.Ack(has(t, s.RecvType(t, resource.ClusterV2URL), "c"))
		w.changeV2(inV2("c", endpoints("c", 1)))
		s.Ack(has(t, s.RecvType(t, resource.EndpointV2URL), "c"))
		w.settled(resource.EndpointV2URL, Synced)
		w.changeV2(inV2("c", cluster("c", 2)))
		s.Ack(has(t, s.RecvType(t, resource.ClusterV2URL), "c"))
		s.Ack(has(t, s.RecvType(t, resource.EndpointV2URL), "c")) // although unchanged
	})
}
