package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// goldenNodes are the worlds of the golden files: a node on its own, and a tier.
var goldenNodes = map[string][]string{"node": {"a"}, "tier": {"a", "b"}}

// goldenConfig is the configuration file of the nodes.
const goldenConfig = "testdata/golden/relay.yaml"

// goldenWorld has the same nodes, clients and history in each run: it is in virtual time, and at
// most one thing happens at a time.
type goldenWorld struct {
	network *xdstest.Memory
	origin  *xdstest.StateOrigin
	began   time.Time
	nodes   []*relay.Node
}

// inGoldenWorld runs f with a world, at a moment in which nothing is on its way. Nothing happens in
// the seconds in which nodes take samples.
func inGoldenWorld(t *testing.T, names []string, f func(t *testing.T, w *goldenWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		silence := make(chan struct{})
		w := &goldenWorld{network: network, began: time.Now(), origin: network.NewHost("control plane", "127.0.0.1").NewStateOrigin(t, func(n *corev3.Node) string {
			if n.GetCluster() == "silent" {
				<-silence // the control plane does not answer
			}
			return n.GetCluster()
		})}
		t.Cleanup(func() { close(silence) })
		// An answer of the control plane or the owner arrives after what has asked for it is done.
		for _, to := range []string{"control plane", "node"} {
			network.SetWay("node", to, xdstest.Way{Delay: time.Millisecond})
			network.SetWay(to, "node", xdstest.Way{Delay: time.Millisecond})
		}
		for _, key := range []string{"shop", "edge"} {
			w.origin.Set(key,
				xdstest.Cluster(key+"-a", time.Second), xdstest.Cluster(key+"-b", time.Second), xdstest.Endpoints(key+"-a", "127.0.0.1:1001"),
				xdstest.Listener(key+"-l", "127.0.0.1:80", key+"-r"), xdstest.Route(key+"-r", key+"-a"),
			)
		}
		w.origin.Set("edge", xdstest.Secret("private", "certificate", "key"))
		w.origin.Set("guarded", xdstest.Cluster("g1", time.Second), xdstest.Cluster("g2", time.Second), xdstest.Cluster("g3", time.Second))
		for i := range names {
			w.start(t, names, i)
		}
		w.at(25 * time.Second)
		w.connect(t, goldenClientsAtFirst)
		w.at(goldenUpdate)
		w.origin.Set("shop", xdstest.Cluster("shop-a", 2*time.Second))
		w.at(46 * time.Second)
		w.origin.Set("shop", xdstest.Endpoints("shop-a", "127.0.0.1:1002"))
		w.at(47 * time.Second)
		w.origin.Remove("guarded", xdstest.ClusterType, "g2", "g3")
		w.at(55 * time.Second)
		w.poll(t)
		w.at(95 * time.Second)
		w.poll(t)
		w.at(105 * time.Second)
		w.connect(t, []goldenClient{{id: "silent", key: "silent", variant: xdstest.Delta, types: map[string][]string{xdstest.ClusterType: nil}}})
		w.at(125 * time.Second)
		f(t, w)
	})
}

// at waits until so long after the beginning, and for all that happens until then.
func (w *goldenWorld) at(d time.Duration) {
	time.Sleep(time.Until(w.began.Add(d))) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// goldenAddress is where a port of a node is: those of the nodes follow one another.
func goldenAddress(port, node int) string { return fmt.Sprintf("127.0.0.1:%d", port+node) }

// The ports of the first node.
const (
	goldenClients, goldenREST, goldenAdmin, goldenMetrics, goldenPeers = 18000, 18080, 19000, 19090, 18500
)

// start starts a node.
func (w *goldenWorld) start(t *testing.T, names []string, i int) {
	t.Helper()
	load := func() (*config.Config, error) {
		cfg, err := config.Load(config.Input{File: goldenConfig})
		if err != nil {
			return nil, err
		}
		cfg.Node.Name, cfg.Upstream.Addresses = names[i], []string{w.origin.Addr()}
		cfg.Listener.Address, cfg.REST.Address = goldenAddress(goldenClients, i), goldenAddress(goldenREST, i)
		cfg.Admin.Address, cfg.Metrics.Address = goldenAddress(goldenAdmin, i), goldenAddress(goldenMetrics, i)
		if len(names) > 1 {
			for j, name := range names {
				cfg.Tier.Nodes = append(cfg.Tier.Nodes, name+"="+goldenAddress(goldenPeers, j))
			}
			cfg.Tier.Peer.Address, cfg.Tier.Peer.TokenFile = goldenAddress(goldenPeers, i), "testdata/golden/token"
		}
		return cfg, nil
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	host := w.network.NewHost("node", "127.0.0.1")
	log, levels := relay.NewLogger(t.Output(), cfg.Log)
	node, err := relay.New(cfg, relay.Options{
		Version: "v-test", Logger: log, Levels: levels, Source: relay.Source{File: goldenConfig, Load: load}, Listen: host.Listen, Dial: host.Dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("node %s: %v", names[i], err)
		}
	})
	w.nodes = append(w.nodes, node)
	synctest.Wait()
}

// goldenClient is a client with its aggregation key.
type goldenClient struct {
	id, key string
	variant xdstest.Variant
	nack    func(*xdstest.Frame) string
	stall   func(context.Context, *xdstest.Frame)
	types   map[string][]string // the names by type; nil means those of a whole configuration
}

// goldenClientsAtFirst are clients of each variant, which reach each state. In a tier the first one
// of a key that both nodes have is on the follower: where the owner has content already, a follower
// gets it twice at once, by its stream and by the question what others hold.
var goldenClientsAtFirst = []goldenClient{
	{"delta-ads", "shop", xdstest.Delta, nil, nil, nil},
	{"sotw-ads", "shop", xdstest.SotW, nil, nil, nil},
	{"delta-eds", "shop", xdstest.Variant{Delta: true, Service: xdstest.EndpointType}, nil, nil, map[string][]string{xdstest.EndpointType: {"shop-a"}}},
	{"sotw-cds", "shop", xdstest.Variant{Service: xdstest.ClusterType}, nil, nil, map[string][]string{xdstest.ClusterType: nil}},
	{"delta-rejects", "shop", xdstest.Delta, rejectsUpdates, nil, nil},
	{"sotw-rejects", "shop", xdstest.SotW, rejectsUpdates, nil, nil},
	{"delta-stalls", "shop", xdstest.Delta, nil, stallsAtUpdates, nil},
	{"guarded", "guarded", xdstest.Delta, nil, nil, map[string][]string{xdstest.ClusterType: nil}},
	{"sotw-waits", "edge", xdstest.SotW, nil, nil, map[string][]string{xdstest.SecretType: {"missing"}}},
	{"delta-secret", "edge", xdstest.Delta, nil, nil, map[string][]string{xdstest.ClusterType: nil, xdstest.SecretType: {"private"}}},
}

// goldenUpdate is when configuration changed, by a clock that begins with the year 2000.
const goldenUpdate = 45 * time.Second

// rejectsUpdates rejects the clusters that have changed.
func rejectsUpdates(f *xdstest.Frame) string {
	if f.TypeURL == xdstest.ClusterType && time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) >= goldenUpdate {
		return "no such filter"
	}
	return ""
}

// stallsAtUpdates does not answer what rejectsUpdates rejects.
func stallsAtUpdates(ctx context.Context, f *xdstest.Frame) {
	if rejectsUpdates(f) != "" {
		<-ctx.Done()
	}
}

// connect connects clients, in turn with the last node and with the first.
func (w *goldenWorld) connect(t *testing.T, clients []goldenClient) {
	t.Helper()
	for i, c := range clients {
		client := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: goldenAddress(goldenClients, (i+1)%len(w.nodes)), Variant: c.variant, Node: xdstest.Node(c.id, c.key), Nack: c.nack, BeforeAck: c.stall,
			DialOptions: []grpc.DialOption{w.network.Option()},
		})
		types := c.types
		if types == nil {
			types = map[string][]string{xdstest.ClusterType: nil, xdstest.EndpointType: {c.key + "-a"}, xdstest.ListenerType: nil, xdstest.RouteType: {c.key + "-r"}}
		}
		for _, url := range []string{xdstest.ClusterType, xdstest.EndpointType, xdstest.ListenerType, xdstest.RouteType, xdstest.SecretType} {
			if names, ok := types[url]; ok {
				client.Subscribe(url, names...)
				w.at(time.Since(w.began) + 100*time.Millisecond)
			}
		}
	}
}

// poll polls for clusters as a REST client.
func (w *goldenWorld) poll(t *testing.T) {
	t.Helper()
	body := `{"node": {"id": "rest-cds", "cluster": "shop"}}`
	code, _, _ := w.ask(t, http.MethodPost, "http://"+goldenAddress(goldenREST, 0)+"/v3/discovery:clusters", body)
	if code != http.StatusOK {
		t.Fatalf("the poll was answered with %d", code)
	}
}

// dial is [app.dial].
func (w *goldenWorld) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return w.network.Dial(ctx, address)
}

// ask sends an HTTP request.
func (w *goldenWorld) ask(t *testing.T, method, url, body string) (code int, contentType, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Xdsrelay-Request", "1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.dial}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), b.String()
}

// clientStatus returns what the client status service of the first node answers over gRPC, as JSON.
func (w *goldenWorld) clientStatus(t *testing.T) string {
	t.Helper()
	conn := w.network.Client(t, goldenAddress(goldenClients, 0))
	stream, err := statusv3.NewClientStatusDiscoveryServiceClient(conn.ClientConn()).StreamClientStatus(t.Context())
	if err == nil {
		err = stream.Send(&statusv3.ClientStatusRequest{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	all := &statusv3.ClientStatusResponse{}
	for err == nil {
		var part *statusv3.ClientStatusResponse
		part, err = stream.Recv()
		all.Config = append(all.Config, part.GetConfig()...)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	return string(text)
}
