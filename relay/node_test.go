package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

var clusterURL = xdstest.TypeOf(xdstest.Cluster("", 0))

// writeResources moves a file with resources into a directory.
func writeResources(t *testing.T, dir, name string, resources ...proto.Message) {
	t.Helper()
	response := &discoveryv3.DiscoveryResponse{}
	for _, r := range resources {
		response.Resources = append(response.Resources, xdstest.Any(r))
	}
	data, err := protojson.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(dir, "."+name)
	if err := os.WriteFile(hidden, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// testConfig is a configuration for ports that are free.
func testConfig() *config.Config {
	cfg := config.Default()
	cfg.Node.Name = "node-1"
	cfg.Listener.Address, cfg.Admin.Address = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Drain.Duration, cfg.Drain.Grace = 10*time.Millisecond, xdstest.Patience
	return cfg
}

// running is a node that runs until its test ends.
type running struct {
	*relay.Node
	stop context.CancelFunc
	done <-chan error
}

func start(t *testing.T, cfg *config.Config) running {
	t.Helper()
	return startWith(t, cfg, relay.Options{Version: "v-test"})
}

func startWith(t *testing.T, cfg *config.Config, opts relay.Options) running {
	t.Helper()
	n := beginWith(t, cfg, opts)
	n.ready(t)
	return n
}

// ready waits until the node is ready.
func (n running) ready(t *testing.T) {
	t.Helper()
	xdstest.Eventually(t, "the node is ready", func() bool { return n.Ready() == nil })
}

// beginWith is startWith for a node that is not ready before others have started, too: it
// waits until its ports are bound.
func beginWith(t *testing.T, cfg *config.Config, opts relay.Options) running {
	t.Helper()
	node, err := relay.New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- node.Run(ctx)
	}()
	n := running{Node: node, stop: stop, done: done}
	t.Cleanup(func() {
		stop()
		n.ended(t)
	})
	xdstest.Eventually(t, "the ports to be bound", func() bool { return node.Addr() != "" })
	return n
}

// ended waits for the end of Run, which has to be an orderly one.
func (n running) ended(t *testing.T) {
	t.Helper()
	select {
	case err := <-n.done: // nil again once it is closed
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(xdstest.Patience):
		t.Fatal("Run goes on after its context has ended")
	}
}

// get asks the admin port.
func (n running) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + n.AdminAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// TestNode runs a node with a directory origin from its start to its end, in
// which streams end with UNAVAILABLE (B42).
func TestNode(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory, cfg.Downstream.Reflection = t.TempDir(), true
	writeResources(t, cfg.Upstream.Directory, "clusters.json", xdstest.Cluster("c1", time.Second))
	n := start(t, cfg)

	conn := xdstest.Dial(t, n.Addr())
	stream := conn.Open(xdstest.Variant{Delta: true})
	stream.Subscribe(clusterURL, "*")
	frame := stream.RecvType(t, clusterURL)
	if got := frame.Names(); len(got) != 1 || got[0] != "c1" {
		t.Fatalf("clusters %v, want c1", got)
	}
	stream.Ack(frame)

	t.Run("state", func(t *testing.T) {
		xdstest.Eventually(t, "the client is shown as synced", func() bool {
			_, text := n.get(t, "/debug/streams")
			return strings.Contains(text, "SYNCED") && strings.Contains(text, "test-client")
		})
		var keys []struct {
			Key     string `json:"key"`
			Clients int    `json:"clients"`
			Tables  []struct {
				TypeURL   string `json:"type_url"`
				Resources int    `json:"resources"`
			} `json:"tables"`
		}
		_, text := n.get(t, "/debug/keys?format=json")
		if err := json.Unmarshal([]byte(text), &keys); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if len(keys) != 1 || keys[0].Key != "test-cluster" || keys[0].Clients != 1 || len(keys[0].Tables) != 1 || keys[0].Tables[0].Resources != 1 {
			t.Errorf("/debug/keys: %s", text)
		}
		if code, text := n.get(t, "/debug/check"); code != http.StatusOK || text != "ok\n" {
			t.Errorf("/debug/check: %d %s", code, text)
		}
		_, text = n.get(t, "/metrics")
		for _, want := range []string{
			`xdsrelay_cache_keys{state="active"} 1`, `xdsrelay_build_info{go="go`, `version="v-test"} 1`,
			"go_goroutines ", "process_resident_memory_bytes ", "xdsrelay_downstream_", `xdsrelay_directory_files{state="valid",upstream="default"} 1`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
	})

	t.Run("bad file", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(cfg.Upstream.Directory, "bad.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		xdstest.Eventually(t, "the bad file is shown", func() bool {
			var origins []ops.OriginInfo
			_, text := n.get(t, "/debug/upstreams?format=json")
			return json.Unmarshal([]byte(text), &origins) == nil && len(origins[0].Problems) == 1 && strings.Contains(origins[0].Problems[0], "bad.json")
		})
	})

	t.Run("health", func(t *testing.T) {
		client := healthpb.NewHealthClient(conn.ClientConn())
		for _, service := range []string{"", "envoy.service.discovery.v3.AggregatedDiscoveryService"} {
			res, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("health of %q: %v, %v", service, res, err)
			}
		}
	})

	t.Run("reflection", func(t *testing.T) {
		services := reflect(t, conn.ClientConn())
		if !strings.Contains(services, "envoy.service.discovery.v3.AggregatedDiscoveryService") || !strings.Contains(services, "envoy.service.cluster.v3.ClusterDiscoveryService") {
			t.Errorf("services %s", services)
		}
	})

	// B42: the end of a drain is UNAVAILABLE, so that the client goes elsewhere.
	n.stop()
	if s := stream.ExpectClosed(t); s.Code() != codes.Unavailable {
		t.Errorf("the stream ended with %v, want UNAVAILABLE", s)
	}
	n.ended(t)
	if conn, err := net.Dial("tcp", n.AdminAddr()); err == nil {
		conn.Close()
		t.Error("the admin port is still open")
	}
}

// reflect lists the services of a server.
func reflect(t *testing.T, cc *grpc.ClientConn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(cc).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	request := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{ListServices: "*"}}
	if err := stream.Send(request); err != nil {
		t.Fatal(err)
	}
	res, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return res.GetListServicesResponse().String()
}

// TestDrain looks at a node in the middle of its end: somebody who watches the
// health service holds it for the grace time.
func TestDrain(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	n := start(t, cfg)

	conn := xdstest.Dial(t, n.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	watch, err := healthpb.NewHealthClient(conn.ClientConn()).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if res, err := watch.Recv(); err != nil || res.Status != want {
			t.Fatalf("health: %v, %v, want %v", res, err, want)
		}
	}
	expect(healthpb.HealthCheckResponse_SERVING)
	n.stop()
	expect(healthpb.HealthCheckResponse_NOT_SERVING)

	if code, text := n.get(t, "/readyz"); code != http.StatusServiceUnavailable || text != "not ready: draining\n" {
		t.Errorf("/readyz: %d %q", code, text)
	}
	if code, _ := n.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	late := xdstest.Dial(t, n.Addr())
	stream, err := late.ClientConn().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, xdstest.Variant{}.Method())
	if err == nil {
		err = stream.RecvMsg(&discoveryv3.DiscoveryResponse{})
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a new stream: %v, want UNAVAILABLE", err)
	}
	select {
	case err := <-n.done:
		t.Errorf("the node has ended although the grace time is not over: %v", err)
	default:
	}
	cancel() // the watcher goes
	n.ended(t)
}

// TestDrainEnds holds that nobody can keep a node from ending.
func TestDrainEnds(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Drain.Duration, cfg.Drain.Grace = 0, 0
	n := start(t, cfg)
	conn := xdstest.Dial(t, n.Addr())
	watch, err := healthpb.NewHealthClient(conn.ClientConn()).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	n.stop()
	n.ended(t)
}

// TestReadyNeedsState holds K12: a node that has clients but nothing to give to
// any of them gets no more.
func TestReadyNeedsState(t *testing.T) {
	origin := xdstest.NewStateOrigin(t, func(*corev3.Node) string { return "" })
	origin.Set("", xdstest.Cluster("c1", time.Second))
	origin.Stop()
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{origin.Addr()}
	cfg.Upstream.Backoff.Initial = 10 * time.Millisecond
	n := start(t, cfg)

	stream := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{})
	stream.Subscribe(clusterURL)
	xdstest.Eventually(t, "not ready while the origin cannot be reached", func() bool {
		_, text := n.get(t, "/readyz")
		return strings.HasPrefix(text, "not ready: no key has any state: ")
	})
	if err := origin.Start(); err != nil {
		t.Fatal(err)
	}
	stream.RecvType(t, clusterURL)
	xdstest.Eventually(t, "ready again", func() bool { return n.Ready() == nil })
	origin.Stop()
	xdstest.Eventually(t, "the origin is noticed to be gone", func() bool {
		_, text := n.get(t, "/debug/keys")
		return strings.Contains(text, "down")
	})
	if err := n.Ready(); err != nil {
		t.Errorf("not ready although there is state: %v", err)
	}
}

// TestNewErrors holds what makes a node impossible, and that nothing is left of it.
func TestNewErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Admin.Address = taken.Addr().String()
	if _, err = relay.New(cfg, relay.Options{}); err == nil || !strings.Contains(err.Error(), "admin.address: listen tcp "+taken.Addr().String()) {
		t.Errorf("port in use: %v", err)
	}

	var wrong *config.Error
	if _, err = relay.New(testConfig(), relay.Options{}); !errors.As(err, &wrong) {
		t.Errorf("no origin: %v, want a *config.Error", err)
	}
}

// TestRunAfterTheEnd holds that a node that was never to serve leaves nothing.
func TestRunAfterTheEnd(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{"127.0.0.1:1"}
	node, err := relay.New(cfg, relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Ready(); err == nil {
		t.Error("ready before it serves")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := node.Run(ctx); err != nil {
		t.Error(err)
	}
	if l, err := net.Listen("tcp", node.Addr()); err != nil {
		t.Errorf("the port is still taken: %v", err)
	} else {
		l.Close()
	}
}
