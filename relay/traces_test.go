package relay_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"xdsrelay/relay/config"
	"xdsrelay/relay/events"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/redistest"
)

// collect starts a collector to which the nodes of the test send.
func collect(t *testing.T) *xdstest.Collector {
	t.Helper()
	c := xdstest.StartCollector(t)
	for name, value := range c.Env() {
		t.Setenv(name, value)
	}
	return c
}

// updateOf waits for the span of a complete update since a moment with so many clients.
func updateOf(t *testing.T, c *xdstest.Collector, since time.Time, node string, clients int64) (found xdstest.Span) {
	t.Helper()
	xdstest.Eventually(t, "the update has been traced", func() bool {
		return slices.ContainsFunc(c.Spans("update"), func(s xdstest.Span) bool {
			if s.Instance != node || s.Attribute("xds.clients") != clients || s.Attribute("xds.complete") != true || int64(s.StartTimeUnixNano) < since.UnixNano() {
				return false
			}
			found = s
			return true
		})
	})
	return found
}

// tracedInHistory holds that the newest update in the history of a key has this trace.
func tracedInHistory(t *testing.T, admin, id string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + admin + "/api/v1/history?key=demo")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var history struct {
		Nodes []struct {
			Types []struct {
				Versions []struct {
					TraceID string `json:"trace_id"`
				}
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&history); err != nil {
		t.Fatal(err)
	}
	if got := history.Nodes[0].Types[0].Versions[0].TraceID; got != id {
		t.Errorf("the trace in the history is %q, expected %s", got, id)
	}
}

// TestTraceOfAnUpdate: an update is one trace, from its arrival to the last answer,
// with a span for each stage and for some of the clients.
func TestTraceOfAnUpdate(t *testing.T) {
	collector := collect(t)
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Telemetry.ClientSpans = 2
	writeResources(t, cfg.Upstream.Directory, "clusters.json", xdstest.Cluster("c1", time.Second))
	n := start(t, cfg)
	const clients = 4
	var fleet []*xdstest.Auto
	for i := range clients {
		c := xdstest.StartAuto(t, xdstest.AutoConfig{
			Addr: n.Addr(), Variant: []xdstest.Variant{xdstest.SotW, xdstest.Delta}[i%2], Node: xdstest.Node("the-node", "demo"),
			Nack: func(f *xdstest.Frame) string {
				if i == 3 && slices.Contains(f.Names(), "c2") {
					return "I do not like it"
				}
				return ""
			},
		})
		c.Subscribe(clusterURL)
		fleet = append(fleet, c)
	}
	for _, c := range fleet {
		c.WaitHeld(t, clusterURL, "c1")
	}
	since := time.Now()
	writeResources(t, cfg.Upstream.Directory, "more.json", xdstest.Cluster("c2", time.Second))

	update := updateOf(t, collector, since, "node-1", clients)
	for name, want := range map[string]any{
		"xds.type": "envoy.config.cluster.v3.Cluster", "xdsrelay.key": "demo", "xds.changes": int64(1), "xds.sent": int64(clients),
		"xds.acks": int64(clients - 1), "xds.nacks": int64(1), "xds.nack": "I do not like it",
	} {
		if got := update.Attribute(name); got != want {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
	xdstest.Eventually(t, "the stages have come", func() bool {
		names := map[string]int{}
		for _, s := range collector.Children(update) {
			names[s.Name]++
			if s.StartTimeUnixNano < update.StartTimeUnixNano || s.EndTimeUnixNano > update.EndTimeUnixNano {
				t.Errorf("%s lies outside of its update", s.Name)
			}
		}
		return names["apply"] == 1 && names["first send"] == 1 && names["send"] == 1 && names["answer"] == 1 && names["client"] == 2
	})
	tracedInHistory(t, n.AdminAddr(), hex.EncodeToString(update.TraceId))
	xdstest.Eventually(t, "metrics are sent, too", func() bool { return collector.Has("xdsrelay.downstream.propagation.duration") })

	request, err := http.NewRequest(http.MethodGet, "http://"+n.AdminAddr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// A bucket shows one of those that fell into it, by chance: the update before may be there.
	traces := map[string]bool{}
	for _, s := range collector.Spans("update") {
		traces[hex.EncodeToString(s.TraceId)] = true
	}
	for _, name := range []string{"propagation", "ack", "body_build"} {
		shown := regexp.MustCompile(`(?m)^xdsrelay_downstream_`+name+`_duration_seconds_bucket\{.*# \{.*trace_id="([0-9a-f]+)"`).FindAllSubmatch(text, -1)
		if len(shown) == 0 {
			t.Errorf("%s: no bucket shows a trace as its exemplar", name)
		}
		for _, s := range shown {
			if !traces[string(s[1])] {
				t.Errorf("%s: a bucket shows the trace %s, which is that of no update", name, s[1])
			}
		}
	}
}

// TestTraceOfATier: the updates of followers are below that of the owner, so that one
// trace shows the way through all nodes.
func TestTraceOfATier(t *testing.T) {
	collector := collect(t)
	dir := t.TempDir()
	writeResources(t, dir, "clusters.json", xdstest.Cluster("c1", time.Second))
	r := newTierRig(t, xdstest.NewMemory(), 3, func(cfg *config.Config) { cfg.Upstream.Directory = dir })
	for _, node := range r.names {
		c := r.client(node, "client-of-"+node, "demo", xdstest.Delta)
		c.Subscribe(clusterURL)
		c.WaitHeld(t, clusterURL, "c1")
	}
	since := time.Now()
	writeResources(t, dir, "more.json", xdstest.Cluster("c2", time.Second))

	owner := r.roster.owner("demo")
	root := updateOf(t, collector, since, owner, 3) // its client, and two nodes
	if got := root.Attribute("xds.peers"); got != int64(2) {
		t.Errorf("%v of those that were sent it are nodes, expected 2", got)
	}
	for _, node := range r.names {
		if node == owner {
			continue
		}
		xdstest.Eventually(t, "the update of "+node+" is below that of "+owner, func() bool {
			return slices.ContainsFunc(collector.Children(root), func(s xdstest.Span) bool {
				return s.Name == "update" && s.Instance == node && string(s.TraceId) == string(root.TraceId) && s.Attribute("xds.acks") == int64(1)
			})
		})
	}
}

// TestTraceOfARejection: with a control plane that speaks delta, the trace of an update has
// a version, lasts until the last client of the tier has answered, and has the status
// ERROR where a client of any node has rejected the update.
func TestTraceOfARejection(t *testing.T) {
	collector := collect(t)
	w := newTierWorld(t, 3, config.Delta, "red")
	owner, follower := w.roster.owner("red"), w.other("red")
	release := make(chan struct{})
	c := xdstest.StartAuto(t, xdstest.AutoConfig{
		Addr: w.nodes[follower].Addr(), Variant: xdstest.Delta, Node: xdstest.Node("envoy-1", "red"), DialOptions: []grpc.DialOption{w.network.Option()},
		Nack: func(f *xdstest.Frame) string {
			if slices.Contains(f.Names(), "red-c") {
				return "I do not like it"
			}
			return ""
		},
		BeforeAck: func(ctx context.Context, f *xdstest.Frame) {
			if slices.Contains(f.Names(), "red-c") {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
		},
	})
	c.Subscribe(clusterURL)
	c.WaitHeld(t, clusterURL, "red-a", "red-b")
	mine := w.client(owner, "envoy-2", "red", xdstest.Delta)
	mine.Subscribe(clusterURL)
	mine.WaitHeld(t, clusterURL, "red-a", "red-b")
	w.set("red", 2)
	mine.WaitHeld(t, clusterURL, "red-a", "red-b", "red-c")
	released := time.Now()
	close(release)

	var root xdstest.Span
	xdstest.Eventually(t, "the update has been traced", func() bool {
		return slices.ContainsFunc(collector.Spans("update"), func(s xdstest.Span) bool {
			root = s
			return s.Instance == owner && s.Attribute("xds.peers.nacks") == int64(1)
		})
	})
	if root.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || root.Status.GetMessage() != "rejected: I do not like it" || root.Attribute("xds.complete") != true {
		t.Errorf("the status is %v", root.Status)
	}
	if version, _ := root.Attribute("xds.version").(string); version == "" {
		t.Error("it has no version")
	}
	if end := time.Unix(0, int64(root.EndTimeUnixNano)); end.Before(released) {
		t.Errorf("it ended %v before the last client was to answer", released.Sub(end))
	}
	xdstest.Eventually(t, "the update of the other node", func() bool {
		return slices.ContainsFunc(collector.Children(root), func(s xdstest.Span) bool {
			return s.Name == "update" && s.Instance == follower && s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR && s.EndTimeUnixNano <= root.EndTimeUnixNano &&
				s.Attribute("xds.version") == root.Attribute("xds.version")
		})
	})
}

// TestTraceThroughRedis: nodes that get an update from the control plane themselves, as the
// owner of the key is out of their reach, learn from its head in Redis to which trace
// it belongs.
func TestTraceThroughRedis(t *testing.T) {
	collector := collect(t)
	redis := redistest.Start(t, redistest.Config{})
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("demo", xdstest.Cluster("c", time.Second))
	var members []shard.Member
	clients, ways := make(map[string]*seen), make(map[string]*xdstest.Network)
	for _, name := range []string{"a", "b", "c"} {
		ways[name] = xdstest.NewNetwork(t, origin.Addr())
		cfg := testConfig()
		cfg.Node.Name = name
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{ways[name].Addr()}, config.Delta
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout = redis.URL(), xdstest.Patience
		cfg.Tier.Peer.Address, cfg.Tier.Peer.AdvertiseAddress = "127.0.0.1:0", xdstest.NewNetwork(t, "127.0.0.1:1").Addr() // leads nowhere
		cfg.Tier.NewerStateTimeout, cfg.Tier.OwnerTimeout = xdstest.Patience, 100*time.Millisecond
		cfg.Tier.Balance.Enabled = false
		n := start(t, cfg)
		members = append(members, shard.Member{Name: name})
		clients[name] = newSeen(t, n.Addr(), "client-of-"+name, xdstest.Variant{Delta: true})
		clients[name].waitFor(t, 1)
		xdstest.Eventually(t, "the heads to be there", func() bool { return len(n.Check()) == 0 })
	}
	owner, _ := shard.NewView(members).Owner("demo")
	// The other nodes get the update late: one that has it for some time before there is a head
	// would take the owner for silent, and write its own.
	for name, way := range ways {
		if name != owner.Name {
			way.Stall(xdstest.ToClient)
		}
	}
	since := time.Now()
	origin.Set("demo", xdstest.Cluster("c", 2*time.Second))
	clients[owner.Name].waitFor(t, 2)
	var root xdstest.Span // of the owner: its head is below it
	from := func(name string) (nodes []string) {
		for _, s := range collector.Children(root) {
			if s.Name == name {
				nodes = append(nodes, s.Instance)
			}
		}
		slices.Sort(nodes)
		return slices.Compact(nodes)
	}
	xdstest.Eventually(t, "the owner to have written the head", func() bool {
		return slices.ContainsFunc(collector.Spans("update"), func(s xdstest.Span) bool {
			root = s
			return s.Instance == owner.Name && int64(s.StartTimeUnixNano) >= since.UnixNano() && slices.Equal(from("head"), []string{owner.Name})
		})
	})
	for name, way := range ways {
		way.Stall(0)
		clients[name].waitFor(t, 2)
	}
	xdstest.Eventually(t, "all nodes to have reached the head", func() bool { return len(from("head")) == len(ways) })
	for name := range ways {
		if name == owner.Name {
			continue
		}
		xdstest.Eventually(t, "the update of "+name+" is found from that of the owner", func() bool {
			return slices.ContainsFunc(collector.Spans("update"), func(s xdstest.Span) bool {
				below := string(s.ParentSpanId) == string(root.SpanId) // the head was faster
				return s.Instance == name && (below || slices.ContainsFunc(collector.Children(root), func(head xdstest.Span) bool {
					return slices.ContainsFunc(head.Links, func(l *tracepb.Span_Link) bool { return string(l.SpanId) == string(s.SpanId) })
				}))
			})
		})
	}
}

// TestEventsByOTLP: each event is one log record with its kind, severity, text and attributes, and
// other lines of the log are none.
func TestEventsByOTLP(t *testing.T) {
	collector := collect(t)
	cfg := testConfig()
	cfg.Upstream.Addresses = []string{"127.0.0.1:1"}
	n := start(t, cfg)
	xdstest.Eventually(t, "the events to arrive", func() bool {
		return len(collector.Logs(string(events.NodeStarted))) == 1 && len(collector.Logs(string(events.ControlPlaneLost))) == 1
	})
	lost := collector.Logs(string(events.ControlPlaneLost))[0]
	if lost.Instance != "node-1" || lost.Attribute("event.name") != "control_plane.lost" || lost.Attribute("xdsrelay.event.subject") != "127.0.0.1:1" ||
		lost.SeverityNumber != logspb.SeverityNumber_SEVERITY_NUMBER_ERROR || lost.TimeUnixNano == 0 || !strings.HasPrefix(lost.Body.GetStringValue(), "Control plane 127.0.0.1:1 has no stream") {
		t.Errorf("%+v", lost)
	}
	if other := collector.Logs(""); len(other) != 0 {
		t.Errorf("%+v", other)
	}
	n.stop()
	n.ended(t)
	if len(collector.Logs(string(events.NodeDraining))) != 1 {
		t.Error("the last event was not sent")
	}
}

// TestTraceOfARollout: a rollout is one trace, with a span for each step and for the final bake, and an event
// for each decision. One that fails has the status ERROR with the reason.
func TestTraceOfARollout(t *testing.T) {
	collector := collect(t)
	s := stage(t, config.Delta, 4, nil)
	s.origin.Set("demo", s.revision("b")...)
	s.all("the revision", s.has("b"))
	s.waitState("Idle")
	s.origin.Set("demo", s.revision("poison")...)
	s.waitState("Held")
	ended := make(map[any]xdstest.Span)
	xdstest.Eventually(t, "both rollouts have been traced", func() bool {
		for _, span := range collector.Spans("rollout") {
			ended[span.Attribute("xdsrelay.rollout.decision")] = span
		}
		return len(ended) == 2 && ended["passed"].Span != nil && len(collector.Children(ended["passed"])) == 3
	})
	good, bad := ended["passed"], ended["failed"]
	var parts []string
	for _, p := range collector.Children(good) {
		parts = append(parts, fmt.Sprint(p.Name, " ", p.Attribute("xdsrelay.rollout.share")))
		if p.StartTimeUnixNano < good.StartTimeUnixNano || p.EndTimeUnixNano > good.EndTimeUnixNano {
			t.Errorf("%s lasts from %d to %d, and the rollout from %d to %d", p.Name, p.StartTimeUnixNano, p.EndTimeUnixNano, good.StartTimeUnixNano, good.EndTimeUnixNano)
		}
	}
	slices.Sort(parts)
	if want := []string{"final bake ", "step 0%", "step 50%"}; !slices.Equal(parts, want) {
		t.Errorf("the parts are %q, expected %q", parts, want)
	}
	for name, want := range map[string]any{"xdsrelay.key": "demo", "xdsrelay.rollout.policy": "mine"} {
		if got := good.Attribute(name); got != want {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
	if good.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR || good.Attribute("xdsrelay.rollout.revision") == bad.Attribute("xdsrelay.rollout.revision") {
		t.Errorf("the rollout that passed: %v", good)
	}
	if bad.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || !strings.Contains(bad.Status.GetMessage(), "nacks") {
		t.Errorf("the status of the rollout that failed is %v", bad.Status)
	}
	var events []string
	for _, e := range bad.Events {
		events = append(events, e.Name)
	}
	if want := []string{"started", "step", "failed"}; !slices.Equal(events, want) {
		t.Errorf("the events are %q, expected %q", events, want)
	}
}
