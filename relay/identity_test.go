package relay_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestNoKeySpellsAnIdentity: at a control plane that goes by the node id alone, as
// go-control-plane's cache with IDHash does, a client without a certificate gets
// nothing of an identity, whatever it says that its cluster or its id is (K4, K6).
func TestNoKeySpellsAnIdentity(t *testing.T) {
	const identity, ofIdentity, ofOthers = "spiffe://corp/web", "for spiffe://corp/web alone", "for others"
	origin := xdstest.NewLenientControlPlane(t, cachev3.IDHash{}.ID)
	ids := make(chan string, 16)
	origin.OnRequest(func(_ int64, m proto.Message) {
		var node *corev3.Node
		switch r := m.(type) {
		case *discoveryv3.DiscoveryRequest:
			node = r.GetNode()
		case *discoveryv3.DeltaDiscoveryRequest:
			node = r.GetNode()
		}
		if node == nil {
			return
		}
		if _, err := origin.Snapshots.GetSnapshot(node.GetId()); err == nil {
			return
		}
		content := ofOthers
		if node.GetMetadata().GetFields()["xdsrelay.identity"].GetStringValue() == identity {
			content = ofIdentity
			ids <- node.GetId()
		}
		origin.SetSnapshot(t, node.GetId(), "1", xdstest.Secret("s", content, "key"))
	})
	mesh := xdstest.NewAuthority(t, "mesh")
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{origin.Addr()}
	cfg.Listener = tlsListener(t, t.TempDir(), mesh)
	cfg.Authorization.AllowAny = true
	for _, name := range []string{"clusters", "ids"} {
		l := config.DefaultListener()
		l.Address = "127.0.0.1:0"
		cfg.Listeners = append(cfg.AllListeners(), config.NamedListener{Name: name, Listener: l})
	}
	cfg.Aggregation.Rules = []aggregation.Rule{
		{Name: "ids", Match: `listener == "ids"`, Key: "node.id"},
		{Name: "clusters", Key: "node.cluster"},
	}
	n := start(t, cfg)
	secret := func(listener, id, cluster string, how credentials.TransportCredentials) string {
		t.Helper()
		c := xdstest.Dial(t, n.ListenerAddr(listener), grpc.WithTransportCredentials(how))
		defer c.Close()
		c.Node = xdstest.Node(id, cluster)
		s := c.Open(xdstest.Variant{Delta: true})
		s.Subscribe(resource.SecretURL, "s")
		f := s.RecvType(t, resource.SecretURL)
		s.Ack(f)
		var m tlsv3.Secret
		if r, ok := f.Get("s"); !ok || r.Decode(&m) != nil {
			t.Fatalf("%s %s/%s: %s", listener, id, cluster, f)
		}
		return m.GetTlsCertificate().GetCertificateChain().GetInlineString()
	}
	if got := secret(config.DefaultName, "envoy-1", "web", credentials.NewTLS(mesh.ClientTLS(mesh, identity))); got != ofIdentity {
		t.Fatalf("the client with the certificate got %q", got)
	}
	meant := <-ids
	suffix := strings.TrimPrefix(meant, "xdsrelay/")
	for _, claim := range []string{meant, suffix, "web/" + identity, "web~" + identity, "web~~" + identity, "/" + suffix} {
		for listener, get := range map[string]func() string{
			"clusters": func() string { return secret("clusters", "envoy-2", claim, insecure.NewCredentials()) },
			"ids":      func() string { return secret("ids", claim, "web", insecure.NewCredentials()) },
		} {
			if got := get(); got != ofOthers {
				t.Errorf("a client without a certificate on the listener %s that claims %q got %q", listener, claim, got)
			}
		}
	}
}
