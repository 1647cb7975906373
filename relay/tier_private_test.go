package relay_test

import (
	"bytes"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// TestFollowerPrivateTypes: what is meant for each client by itself comes from the
// origin over a stream of the client's own, on the owner of the key as on a follower:
// no table that is shared has any of it, nobody gets that of another, and it stays
// where it is when the key moves (K6).
func TestFollowerPrivateTypes(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		for _, v := range everyVariant[:2] {
			t.Run(v.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { privateTypes(t, variant, v) })
			})
		}
	})
}

func privateTypes(t *testing.T, variant config.Variant, v xdstest.Variant) {
	network := xdstest.NewMemory()
	// Each client has a certificate of its own; that of the key is nobody's.
	o := network.NewStateOrigin(t, func(n *corev3.Node) string {
		if id := n.GetId(); id == "one" || id == "two" {
			return id
		}
		return n.GetCluster()
	})
	for _, view := range []string{"red", "one", "two"} {
		o.Set(view, xdstest.Cluster("c", time.Second), xdstest.Secret("s", view, "key of "+view))
	}
	w := &following{tierWorld: &tierWorld{origin: o}}
	w.tierRig = newTierRig(t, network, 2, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{o.Addr()}, variant
		cfg.Aggregation.PrivateTypes = []string{"Secret"}
		cfg.Admin.Address = "127.0.0.1:0"
	})
	w.owner = w.roster.owner("red")
	w.follower = w.other("red")

	clients := map[string]*xdstest.Auto{
		"one": w.client(w.owner, "one", "red", v), "two": w.client(w.follower, "two", "red", v),
	}
	for _, c := range clients {
		c.Subscribe(xdstest.ClusterType)
		c.Subscribe(xdstest.SecretType, "s")
	}
	has := func(id, mark string) {
		t.Helper()
		c := clients[id]
		c.WaitFor(t, "the secret "+mark, func() bool { return bytes.Contains(c.Held(xdstest.SecretType)["s"].Body, []byte("key of "+mark)) })
		c.WaitHeld(t, xdstest.ClusterType, "c")
		c.CheckViolations(t)
	}
	unshared := func() {
		t.Helper()
		for _, node := range w.names {
			var groups []cache.GroupInfo
			w.order(node, http.MethodGet, "/debug/keys?format=json", &groups)
			if len(groups) != 1 || groups[0].Private != 1 || len(groups[0].Tables) != 1 || groups[0].Tables[0].TypeURL != xdstest.ClusterType {
				t.Errorf("node %s has %+v, expected a table of clusters and one client with a stream of its own", node, groups)
			}
		}
	}
	has("one", "one")
	has("two", "two")
	w.streams(3) // the owner's, and one for each client
	unshared()

	before := clients["one"].Stats().Frames
	o.Set("two", xdstest.Secret("s", "two", "key of two, renewed"))
	has("two", "two, renewed")
	w.settle()
	if n := clients["one"].Stats().Frames - before; n > 0 {
		t.Errorf("the change of one client's secret was told another in %d responses", n)
	}

	w.roster.change(w.owner, func(m *shard.Member) { m.Draining = true })
	w.settle()
	w.streams(3)
	o.Set("one", xdstest.Secret("s", "one", "key of one, renewed"))
	o.Set("red", xdstest.Secret("s", "red", "key of red, renewed"))
	has("one", "one, renewed")
	has("two", "two, renewed")
	unshared()
	if n := o.Counts().Streams; n != 4 {
		t.Errorf("the origin saw %d streams, expected one more, of the new owner", n)
	}
	w.check()
}
