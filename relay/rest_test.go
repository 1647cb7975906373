package relay_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// polled is what a client that polls one path has.
type polled struct {
	node  running
	path  string
	names []string
	got   *discoveryv3.DiscoveryResponse
}

// poll asks once, and returns the status.
func (p *polled) poll(t *testing.T) int {
	t.Helper()
	body, err := protojson.Marshal(&discoveryv3.DiscoveryRequest{
		Node: xdstest.Node("poller", "demo"), VersionInfo: p.got.GetVersionInfo(), ResourceNames: p.names,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post("http://"+p.node.RESTAddr()+p.path, "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == http.StatusOK {
		got := &discoveryv3.DiscoveryResponse{}
		if err := protojson.Unmarshal(answer, got); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		if got.VersionInfo == p.got.GetVersionInfo() {
			t.Errorf("200 with the version that the client has")
		}
		p.got = got
	}
	return res.StatusCode
}

// has polls until it has a resource.
func (p *polled) has(t *testing.T, want proto.Message) {
	t.Helper()
	xdstest.Eventually(t, fmt.Sprintf("a client of %s to have %s", p.path, xdstest.NameOf(want)), func() bool {
		p.poll(t)
		for _, r := range p.got.GetResources() {
			if proto.Equal(r, xdstest.Any(want)) {
				return true
			}
		}
		return false
	})
}

// TestPolling: clients that poll follow a real control plane, whatever it speaks,
// on the stream of those that do not (H1, H4, K9), and while it is away (K14).
func TestPolling(t *testing.T) {
	t.Parallel()
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		for name, cp := range realControlPlanes(t) {
			t.Run(fmt.Sprintf("%s/%s", name, variant), func(t *testing.T) {
				t.Parallel()
				cfg := testConfig()
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{cp.Addr()}, variant
				cfg.REST.Address = "127.0.0.1:0"
				n := start(t, cfg)
				state := func(v int) (cluster, endpoints proto.Message) {
					return xdstest.Cluster("a", time.Duration(v)*time.Second), xdstest.Endpoints("a", fmt.Sprintf("127.0.0.1:%d", 1000+v))
				}
				c := &polled{node: n, path: "/v3/discovery:clusters"}
				e := &polled{node: n, path: "/v3/discovery:endpoints", names: []string{"a"}}
				follow := func(v int) {
					t.Helper()
					cluster, endpoints := state(v)
					cp.set(fmt.Sprint(v), cluster, endpoints)
					c.has(t, cluster)
					e.has(t, endpoints)
				}
				follow(1)
				stream := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("streams", "demo")})
				stream.Subscribe(xdstest.ClusterType)
				stream.WaitFor(t, "the cluster", func() bool { return len(stream.Held(xdstest.ClusterType)) == 1 })
				follow(2)
				if status := c.poll(t); status != http.StatusNotModified {
					t.Errorf("a poll with the newest version: %d", status)
				}
				if n := cp.Counts().Streams; n != 1 {
					t.Errorf("the control plane saw %d streams for one key", n)
				}
				cp.Stop()
				fresh := &polled{node: n, path: e.path, names: e.names}
				_, endpoints := state(2)
				fresh.has(t, endpoints)
				if err := cp.Start(); err != nil {
					t.Fatal(err)
				}
				if _, text := n.get(t, "/metrics"); !strings.Contains(text, `xdsrelay_rest_polls_total{status="304",type="envoy.config.cluster.v3.Cluster"}`) {
					t.Error("/metrics lacks the polls")
				}
			})
		}
	}
}

// TestPollingEnds: a node that drains answers the polls that wait, takes no more
// connections for others, and ends (B42).
func TestPollingEnds(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.REST.Address, cfg.REST.PollTimeout = "127.0.0.1:0", 5*time.Minute
	writeResources(t, cfg.Upstream.Directory, "clusters.json", xdstest.Cluster("c1", time.Second))
	n := start(t, cfg)
	p := &polled{node: n, path: "/v3/discovery:clusters"}
	p.has(t, xdstest.Cluster("c1", time.Second))
	done := make(chan int)
	go func() { done <- p.poll(t) }()
	xdstest.Eventually(t, "the poll to wait", func() bool {
		_, text := n.get(t, "/metrics")
		return strings.Contains(text, "xdsrelay_rest_waiting_polls 1")
	})
	n.stop()
	if status := <-done; status != http.StatusNotModified {
		t.Errorf("the poll ended with %d", status)
	}
	n.ended(t)
	var d net.Dialer
	if conn, err := d.DialContext(context.Background(), "tcp", n.RESTAddr()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}

// TestPollingIsOff: without an address there is no port.
func TestPollingIsOff(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	if addr := start(t, cfg).RESTAddr(); addr != "" {
		t.Errorf("polls are served at %s", addr)
	}
}
