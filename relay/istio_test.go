package relay_test

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestIstioAgents: Istio's agents and node proxies ask for its own types with an
// empty list, and istiod answers as here, the name table without a name (B20, B23).
func TestIstioAgents(t *testing.T) {
	o := xdstest.NewOrigin(t)
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{o.Addr()}
	conn := xdstest.Dial(t, start(t, cfg).Addr())
	body := func(typeURL, value string) *anypb.Any { return &anypb.Any{TypeUrl: typeURL, Value: []byte(value)} }
	answers := map[string]*discoveryv3.Resource{
		resource.NameTableURL:     {Resource: body(resource.NameTableURL, "\x0a\x05hosts")},
		resource.AddressURL:       {Name: "Kubernetes//Pod/shop/web-1", Version: "1", Resource: body(resource.AddressURL, "\x0a\x03pod")},
		resource.AuthorizationURL: {Name: "shop/deny", Resource: body(resource.AuthorizationURL, "\x0a\x04deny")},
	}
	agent, proxy := conn.Open(xdstest.SotW), conn.Open(xdstest.Delta)
	agent.Subscribe(resource.NameTableURL)
	for u := range answers {
		proxy.Subscribe(u)
	}
	st := o.NextStream(t)
	for range answers {
		r := st.NextRequest(t)
		a := answers[r.TypeURL]
		if a == nil || len(r.Subscribe)+len(r.Unsubscribe) > 0 {
			t.Fatalf("the origin is asked for %s %q", r.TypeURL, r.Subscribe)
		}
		if err := st.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: r.TypeURL, Nonce: "n" + r.TypeURL, Resources: []*discoveryv3.Resource{a}}); err != nil {
			t.Fatal(err)
		}
		if ack := st.NextRequestOf(t, r.TypeURL); ack.Error != nil {
			t.Fatalf("%s is rejected: %v", r.TypeURL, ack.Error)
		}
	}
	for u, a := range answers {
		f := proxy.RecvType(t, u)
		if len(f.Resources) != 1 || string(f.Resources[0].Body.GetValue()) != string(a.Resource.Value) {
			t.Errorf("%s: %v", u, f)
		}
	}
	if f := agent.RecvType(t, resource.NameTableURL); len(f.Resources) != 1 || string(f.Resources[0].Body.GetValue()) != "\x0a\x05hosts" {
		t.Errorf("the agent was told %v", f)
	}
}
