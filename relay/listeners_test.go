package relay_test

import (
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestListeners: a node serves several ports alike, and rules tell them apart.
func TestListeners(t *testing.T) {
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("shop", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{origin.Addr()}
	cfg.Listeners = append(cfg.AllListeners(), config.NamedListener{Name: "mesh", Listener: config.Listener{Address: "127.0.0.1:0"}})
	cfg.Aggregation.Rules = []aggregation.Rule{{Key: "node.cluster + '@' + peer.listener", Name: "by listener"}}
	n := start(t, cfg)
	if n.ListenerAddr("mesh") == n.Addr() || n.ListenerAddr("none") != "" {
		t.Fatalf("%s, %s, %s", n.Addr(), n.ListenerAddr("mesh"), n.ListenerAddr("none"))
	}
	for _, name := range []string{config.DefaultName, "mesh"} {
		c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.ListenerAddr(name), Variant: xdstest.Delta, Node: xdstest.Node(name, "shop")})
		c.Subscribe(xdstest.ClusterType)
		c.WaitFor(t, "the key's clusters", func() bool { return len(origin.Differences("shop", c)) == 0 })
		key := "shop@" + name
		xdstest.Eventually(t, key+" is a key", func() bool {
			_, body := n.get(t, "/debug/keys")
			return strings.Contains(body, key)
		})
	}
}

// TestSilentConnections: connections on which nothing is said are ended after the
// handshake timeout, and hold up neither anybody else nor the end of the node.
func TestSilentConnections(t *testing.T) {
	dir := t.TempDir()
	writeResources(t, dir, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = dir
	for _, timeout := range []time.Duration{200 * time.Millisecond, time.Hour} {
		cfg.Downstream.HandshakeTimeout = timeout
		n := start(t, cfg)
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("good", "shop")})
		c.Subscribe(xdstest.ClusterType)
		c.WaitHeld(t, xdstest.ClusterType, "a")
		if timeout > time.Minute {
			n.stop() // which waits for nobody
			n.ended(t)
		}
		if err := conn.SetDeadline(time.Now().Add(xdstest.Patience)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1<<10)
		for err == nil { // the server's settings come first
			_, err = conn.Read(buf)
		}
		if timed, ok := err.(net.Error); ok && timed.Timeout() { //nolint:errorlint // as it comes
			t.Errorf("with a timeout of %v the connection stays", timeout)
		}
	}
}
