package relay_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/limit"
	"xdsrelay/relay/config"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// limited is a node with limits, behind an origin that serves a cluster to every key.
func limited(t *testing.T, change func(*config.Config)) running {
	t.Helper()
	cp := xdstest.NewLinearControlPlane(t)
	cp.SetLinear(t, xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{cp.Addr()}
	change(cfg)
	return start(t, cfg)
}

// refusals waits until a limit has rejected so many.
func (n running) refusals(t *testing.T, name string, want int) {
	t.Helper()
	all := limit.All()
	of := all[slices.IndexFunc(all, func(l limit.Name) bool { return l.String() == name })]
	line := fmt.Sprintf(`xdsrelay_rejections_total{reason=%q,where=%q} %d`, of.Reason(), of.Where(), want)
	text := ""
	xdstest.Eventually(t, line, func() bool {
		_, text = n.get(t, "/metrics")
		return strings.Contains(text, line)
	})
	if strings.Contains(text, `reason="resource_exhausted"`) || strings.Contains(text, `reason="deadline_exceeded"`) {
		t.Errorf("the rejection by %s also counts by its code", of)
	}
}

// takesAnother waits until there is room for another client.
func (n running) takesAnother(t *testing.T) {
	t.Helper()
	xdstest.Eventually(t, "somebody else to be served", func() bool {
		s := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{Delta: true})
		s.Subscribe(resource.ClusterURL)
		_, err := s.Next(xdstest.Patience, func(*xdstest.Frame) bool { return true })
		return err == nil
	})
}

// supplied opens a stream and waits until its client has the cluster.
func supplied(t *testing.T, c *xdstest.Conn) *xdstest.Stream {
	t.Helper()
	s := c.Open(xdstest.Variant{Delta: true})
	s.Subscribe(resource.ClusterURL)
	s.Ack(s.RecvType(t, resource.ClusterURL))
	return s
}

// Whoever is over a limit is told which one it is and what its value is, is counted,
// and disturbs nobody else; when there is room again the next one is served.
func TestLimits(t *testing.T) {
	many := func(n int, name string) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint(name, i))
		}
		return names
	}
	for _, test := range []struct {
		limit  string
		change func(*config.Config)
		over   func(t *testing.T, n running, c *xdstest.Conn) *xdstest.Stream // gets one stream too many
		want   string
	}{
		{"streams", func(c *config.Config) { c.Limits.MaxStreams = 1 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			return c.Open(xdstest.Variant{})
		}, "2 streams on this node: the limit is 1 (limits.max_streams)"},
		{"streams_per_source", func(c *config.Config) { c.Limits.MaxStreamsPerSource = 1 }, func(t *testing.T, n running, _ *xdstest.Conn) *xdstest.Stream {
			return xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{}) // also on another connection
		}, "2 streams from 127.0.0.1: the limit is 1 (limits.max_streams_per_source)"},
		{"keys", func(c *config.Config) { c.Limits.MaxKeys = 1 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			c.Node = xdstest.Node("other", "other")
			s := c.Open(xdstest.Variant{})
			s.Subscribe(resource.ClusterURL)
			return s
		}, "2 aggregation keys on this node: the limit is 1 (limits.max_keys)"},
		{"keys_per_identity", func(c *config.Config) { c.Limits.MaxKeysPerIdentity = 1 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			c.Node = xdstest.Node("other", "other")
			s := c.Open(xdstest.Variant{})
			s.Subscribe(resource.ClusterURL)
			return s
		}, "2 aggregation keys of 127.0.0.1: the limit is 1 (limits.max_keys_per_identity)"},
		{"types_per_stream", func(c *config.Config) { c.Limits.MaxTypesPerStream = 2 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			s := c.Open(xdstest.Variant{Delta: true})
			for i := range 3 {
				s.Subscribe(fmt.Sprint(resource.TypePrefix, "x.T", i), "a")
			}
			return s
		}, "3 resource types on one stream: the limit is 2 (limits.max_types_per_stream)"},
		{"types_per_key", func(c *config.Config) { c.Limits.MaxTypesPerKey = 2 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			s := c.Open(xdstest.Variant{Delta: true})
			for i := range 3 {
				s.Subscribe(fmt.Sprint(resource.TypePrefix, "x.T", i), "a")
			}
			return s
		}, "3 resource types asked for by the clients of this key: the limit is 2 (limits.max_types_per_key)"},
		{"names", func(c *config.Config) { c.Limits.MaxNamesPerStream = 10 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			s := c.Open(xdstest.Variant{})
			s.Subscribe(resource.EndpointURL, many(11, "n")...)
			return s
		}, "11 names on one stream: the limit is 10 (limits.max_names_per_stream)"},
		{"name_size", func(c *config.Config) { c.Limits.MaxNamesSizePerStream = 1 << 10 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			s := c.Open(xdstest.Variant{Delta: true})
			s.Subscribe(resource.EndpointURL, strings.Repeat("x", 1000))
			s.Subscribe(resource.RouteURL, strings.Repeat("x", 25)) // of all types together
			return s
		}, "1025 bytes of names on one stream: the limit is 1024 (limits.max_names_size_per_stream)"},
		{"message_size", func(c *config.Config) { c.Limits.MaxRequestSize = 4 << 10 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			s := c.Open(xdstest.Variant{})
			s.Subscribe(resource.EndpointURL, strings.Repeat("x", 5000))
			return s
		}, "the request is larger than max: it has 5135 bytes, and the limit is 4096 (limits.max_request_size)"},
		{"node_size", func(c *config.Config) { c.Limits.MaxNodeSize = 1 << 10 }, func(_ *testing.T, _ running, c *xdstest.Conn) *xdstest.Stream {
			c.Node = xdstest.Node(strings.Repeat("x", 1100), "test-cluster")
			s := c.Open(xdstest.Variant{})
			s.Subscribe(resource.ClusterURL)
			return s
		}, "bytes of a node: the limit is 1024 (limits.max_node_size)"},
	} {
		t.Run(test.limit, func(t *testing.T) {
			t.Parallel()
			n := limited(t, test.change)
			first := supplied(t, xdstest.Dial(t, n.Addr()))
			over := test.over(t, n, xdstest.Dial(t, n.Addr()))
			if st := over.ExpectClosed(t); st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), test.want) {
				t.Errorf("told %v, want %q", st, test.want)
			}
			n.refusals(t, test.limit, 1)
			first.Subscribe(resource.EndpointURL, "a") // it goes on
			first.Cancel()
			n.takesAnother(t)
		})
	}
}

// adsOf opens a stream of a connection that does not wait, on which errors show.
func adsOf(t *testing.T, addr string, md ...string) (discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient, error) {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), md...), xdstest.PatienceHere())
	t.Cleanup(cancel)
	return discoveryv3.NewAggregatedDiscoveryServiceClient(cc).StreamAggregatedResources(ctx)
}

// A connection too many is closed as it comes, and its client learns why; when
// another one has gone, it is served.
func TestLimitOfConnections(t *testing.T) {
	for limit, change := range map[string]func(*config.Config){
		"connections":            func(c *config.Config) { c.Limits.MaxConnections = 1 },
		"connections_per_source": func(c *config.Config) { c.Limits.MaxConnectionsPerSource = 1 },
	} {
		t.Run(limit, func(t *testing.T) {
			n := limited(t, change)
			first := xdstest.Dial(t, n.Addr())
			supplied(t, first)
			s, err := adsOf(t, n.Addr())
			if err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "the limit is 1 (limits.max_"+limit+")") {
				t.Fatalf("one connection too many got %v", err)
			}
			n.refusals(t, limit, 1)
			first.Close()
			n.takesAnother(t)
		})
	}
}

// Headers beyond the limit are refused with a reason, and those beyond twice as much by
// the client itself.
func TestLimitOfHeaders(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Limits.MaxHeaderSize = 4 << 10 })
	for size, want := range map[int]string{5 << 10: "the limit is 4096 (limits.max_header_size)", 9 << 10: "header list size"} {
		s, err := adsOf(t, n.Addr(), "x-large", strings.Repeat("x", size))
		if err == nil {
			_, err = s.Recv()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes of headers got %v, want %q", size, err, want)
		}
	}
	n.refusals(t, "header_size", 1)
	supplied(t, xdstest.Dial(t, n.Addr()))
}

// Connections and streams of an identity count wherever they come from, and another
// identity has its own.
func TestLimitsOfIdentities(t *testing.T) {
	for limit, change := range map[string]func(*config.Config){
		"connections_per_identity": func(c *config.Config) { c.Limits.MaxConnectionsPerIdentity = 1 },
		"streams_per_identity":     func(c *config.Config) { c.Limits.MaxStreamsPerIdentity = 1 },
		"keys_per_identity":        func(c *config.Config) { c.Limits.MaxKeysPerIdentity = 1 },
	} {
		t.Run(limit, func(t *testing.T) {
			mesh := xdstest.NewAuthority(t, "mesh")
			n := limited(t, func(c *config.Config) {
				change(c)
				c.Listener = tlsListener(t, t.TempDir(), mesh)
				c.Authorization.AllowAny = true
			})
			dial := func(identity string) *xdstest.Conn {
				return xdstest.Dial(t, n.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(mesh.ClientTLS(mesh, identity))))
			}
			first := dial("web")
			supplied(t, first)
			second := dial("web")
			second.Node = xdstest.Node("other", "other")
			s := second.Open(xdstest.Variant{})
			s.Subscribe(resource.ClusterURL)
			if st := s.ExpectClosed(t); st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "of dns:web: the limit is 1 (limits.max_"+limit+")") {
				t.Errorf("told %v", st)
			}
			n.refusals(t, limit, 1)
			supplied(t, dial("db"))
			first.Close()
			if limit != "keys_per_identity" { // which it keeps for the linger time
				xdstest.Eventually(t, "the identity to have room again", func() bool {
					s := dial("web").Open(xdstest.Variant{Delta: true})
					s.Subscribe(resource.ClusterURL)
					_, err := s.Next(xdstest.Patience, func(*xdstest.Frame) bool { return true })
					return err == nil
				})
			}
		})
	}
}

// A client that asks too fast is read later, and loses nothing; others are not held
// up.
func TestLimitOfRequests(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Limits.MaxRequestsPerSecond, c.Limits.MaxRequestBurst = 20, 5 })
	fast, other := supplied(t, xdstest.Dial(t, n.Addr())), xdstest.Dial(t, n.Addr())
	began := time.Now()
	const requests = 25
	for i := range requests {
		fast.Subscribe(resource.EndpointURL, fmt.Sprint("e", i))
	}
	supplied(t, other)
	xdstest.Eventually(t, "all requests to be read", func() bool {
		_, text := n.get(t, "/debug/streams?format=json")
		return strings.Contains(text, fmt.Sprintf(`"names": %d,`, requests))
	})
	if took := time.Since(began); took < (requests-5)*time.Second/20-100*time.Millisecond {
		t.Errorf("%d requests were read within %v", requests, took)
	}
	if _, text := n.get(t, "/metrics"); !strings.Contains(text, "\nxdsrelay_downstream_delayed_requests_total ") {
		t.Error("that is not counted")
	}
}

// A stream that says nothing ends, and is counted.
func TestLimitOfTheFirstRequest(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Downstream.FirstRequestTimeout = 100 * time.Millisecond })
	if st := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{}).ExpectClosed(t); st.Code() != codes.DeadlineExceeded {
		t.Errorf("told %v", st)
	}
	n.refusals(t, "first_request", 1)
}

// Streams of one connection beyond the limit wait until one has ended.
func TestLimitOfStreamsPerConnection(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Limits.MaxStreamsPerConnection = 1 })
	c := xdstest.Dial(t, n.Addr())
	first := supplied(t, c)
	second := make(chan *xdstest.Stream)
	go func() { second <- supplied(t, c) }()
	select {
	case <-second:
		t.Fatal("a second stream was opened")
	case <-time.After(100 * time.Millisecond):
	}
	first.Cancel()
	<-second
}

// Polls count as streams while they are answered, and their connections as others do.
func TestLimitsOfPolls(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Limits.MaxStreams, c.REST.Address = 1, "127.0.0.1:0" })
	p := &polled{node: n, path: "/v3/discovery:clusters"}
	s := supplied(t, xdstest.Dial(t, n.Addr()))
	if got := p.poll(t); got != http.StatusTooManyRequests {
		t.Errorf("a poll beside a stream got %d", got)
	}
	n.refusals(t, "streams", 1)
	s.Cancel()
	xdstest.Eventually(t, "a poll to be answered", func() bool { return p.poll(t) == http.StatusOK })
}

// TestOtherStreamsCount: who watches health has streams like any client, and no long
// names, which would be kept for as long as it watches.
func TestOtherStreamsCount(t *testing.T) {
	n := limited(t, func(c *config.Config) { c.Limits.MaxStreams = 3 })
	first := supplied(t, xdstest.Dial(t, n.Addr()))
	cc, err := grpc.NewClient("passthrough:///"+n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	watch := func(service string) (healthpb.Health_WatchClient, context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		w, err := healthpb.NewHealthClient(cc).Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Recv()
		return w, cancel, err
	}
	const kept = 64 << 10
	if _, _, err := watch(strings.Repeat("s", 2*kept)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a long name: %v, want that it is too long", err)
	}
	var ends []context.CancelFunc
	for range 2 {
		_, end, err := watch("invented")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, _, err := watch("invented"); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.max_streams") {
		t.Errorf("a stream too many: %v, want the limit", err)
	}
	for _, end := range ends {
		end()
	}
	first.Cancel()
	n.takesAnother(t)
}
