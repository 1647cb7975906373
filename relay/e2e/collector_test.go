//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/e2e/record"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

const (
	// collectorVariable names the OpenTelemetry Collector; `make e2e` builds it.
	collectorVariable = "E2E_COLLECTOR"
	// recordVariable names a folder in which the collector's files are to stay.
	recordVariable = "E2E_RECORD"
)

// TestCollector: a tier of three nodes with real clients sends its telemetry to a real
// OpenTelemetry Collector. One change of the control plane is one trace, in which all
// three nodes are found with what the page of traces promises, and metrics of all arrive.
func TestCollector(t *testing.T) {
	ctx := contextOf(t)
	collector := startCollector(t)
	first, second := xdstest.NewBackend(t, "first"), xdstest.NewBackend(t, "second")
	origin := xdstest.NewControlPlane(t, nil)
	origin.SetSnapshot(t, cluster, "1", xdstest.GRPCService(service, first.Addr())...)
	redis := redistest.Start(t, redistest.Config{})
	names := []string{"a", "b", "c"}
	var nodes []relayNode
	for i, name := range names {
		n := relayNode{
			program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: origin.Addr(), variant: "delta", key: "node.cluster",
			flags: []string{"--name", name, "--redis", redis.URL(), "--peer", freeAddress(t)},
			env:   append([]string{"XDSRELAY_TIER_BALANCE_ENABLED=false"}, collector.env[i%len(collector.env)]...),
		}
		n.start(ctx, t, "node "+name)
		nodes = append(nodes, n)
	}
	tier := &tier{t: t, ctx: ctx, origin: origin, nodes: nodes, names: names}
	var fleet fleet
	step(t, "nodes and clients start", func() error {
		for i, n := range nodes {
			kind := []string{"grpc-go", "grpc-c-core", "grpc-js"}[i]
			fleet = append(fleet, startClient(t, kind, kind, n.listen), startClient(t, "grpc-go", "grpc-go-of-"+names[i], n.listen))
		}
		if err := fleet.reach(ctx, first); err != nil {
			return err
		}
		return tier.eventually(tier.one)
	})
	since := time.Now()
	step(t, "a change is followed", func() error {
		origin.SetSnapshot(t, cluster, "2", xdstest.GRPCService(service, second.Addr())...)
		return fleet.reach(ctx, second)
	})
	step(t, "it is one trace of three nodes", func() error {
		return tier.eventually(func() error {
			spans, _, err := collector.read("traces.json")
			if err != nil {
				return final{err}
			}
			return oneTrace(spans, since, names, int64(len(fleet)))
		})
	})
	step(t, "metrics of all nodes have come", func() error {
		return tier.eventually(func() error {
			_, metrics, err := collector.read("metrics.json")
			if err != nil {
				return final{err}
			}
			for _, name := range names {
				for _, metric := range []string{"xdsrelay.downstream.propagation.duration", "xdsrelay.downstream.streams", "xdsrelay.upstream.responses", "xdsrelay.build.info"} {
					if !metrics[name][metric] {
						return fmt.Errorf("%s of node %s is missing", metric, name)
					}
				}
			}
			return nil
		})
	})
	step(t, "no call has failed", fleet.unharmed)
}

// oneTrace returns an error unless an update since a moment is one trace of all nodes,
// with so many clients.
func oneTrace(spans []record.Span, since time.Time, nodes []string, clients int64) error {
	for _, root := range spans {
		if root.Name != "update" || root.Parent != "" || root.Start.Before(since) {
			continue
		}
		updates := []record.Span{root}
		for _, below := range record.Below(spans, root) {
			if below.Name == "update" {
				updates = append(updates, below)
			}
		}
		var of []string
		acks, peers := int64(0), int64(0)
		for _, u := range updates {
			of = append(of, u.Node)
			if err := promised(spans, u); err != nil {
				return err
			}
			acks += u.Attributes["xds.acks"].(int64)
			peers += u.Attributes["xds.peers"].(int64)
		}
		slices.Sort(of)
		if slices.Equal(of, nodes) {
			if peers != int64(len(nodes)-1) || acks != clients+peers {
				return final{fmt.Errorf("%d answers, %d of nodes, expected %d of clients and %d of nodes", acks, peers, clients, len(nodes)-1)}
			}
			return nil
		}
	}
	return fmt.Errorf("no trace of the nodes %v among %d spans", nodes, len(spans))
}

// promised returns an error unless an update has what docs/operate/tracing.md says of it.
func promised(spans []record.Span, u record.Span) error {
	for name, want := range map[string]any{
		"xds.type": "envoy.config.endpoint.v3.ClusterLoadAssignment",
		// gRPC's clients cannot do everything, which is a part of their key.
		"xdsrelay.key": cluster + "+no-overprovisioning",
		"xds.changes":  int64(1), "xds.nacks": int64(0), "xds.complete": true,
	} {
		if u.Attributes[name] != want {
			return fmt.Errorf("the update of node %s: %s is %v, expected %v", u.Node, name, u.Attributes[name], want)
		}
	}
	for _, name := range []string{"xds.clients", "xds.peers", "xds.sent", "xds.acks", "xds.left"} {
		if _, ok := u.Attributes[name].(int64); !ok {
			return fmt.Errorf("the update of node %s: %s is %v, expected a number", u.Node, name, u.Attributes[name])
		}
	}
	stages := map[string]int{}
	for _, s := range record.Below(spans, u) {
		if s.Node == u.Node {
			stages[s.Name]++
		}
	}
	for _, name := range []string{"apply", "first send", "send", "answer"} {
		if stages[name] != 1 {
			return fmt.Errorf("the update of node %s: %d spans %q, expected one", u.Node, stages[name], name)
		}
	}
	if stages["client"] == 0 {
		return fmt.Errorf("the update of node %s: no client has a span", u.Node)
	}
	return nil
}

// collectorProcess is a running OpenTelemetry Collector.
type collectorProcess struct {
	folder string
	// env are environments that lead to it, one for each protocol.
	env [][]string
}

// startCollector starts a collector that writes what it receives to traces.json and
// metrics.json.
func startCollector(t *testing.T) collectorProcess {
	t.Helper()
	binary := os.Getenv(collectorVariable)
	if binary == "" {
		t.Fatalf("%s names no collector (`make e2e` builds it)", collectorVariable)
	}
	c := collectorProcess{folder: os.Getenv(recordVariable)}
	if c.folder == "" {
		c.folder = t.TempDir()
	}
	grpc, http := freeAddress(t), freeAddress(t)
	config := filepath.Join(c.folder, "config.yaml")
	text := fmt.Sprintf(`receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
exporters:
  file/traces: {path: %q, flush_interval: 100ms}
  file/metrics: {path: %q, flush_interval: 100ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [file/traces]}
    metrics: {receivers: [otlp], exporters: [file/metrics]}
`, grpc, http, filepath.Join(c.folder, "traces.json"), filepath.Join(c.folder, "metrics.json"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "the collector", exec.CommandContext(t.Context(), binary, "--config", "file:"+config), nil)
	for _, addr := range []string{grpc, http} {
		if err := accepts(contextOf(t), p, addr); err != nil {
			t.Fatalf("the collector is not up: %v", err)
		}
	}
	often := []string{"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=500"}
	c.env = [][]string{
		append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + grpc, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, often...),
		append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + http, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}, often...),
	}
	return c
}

// read reads one of the collector's files.
func (c collectorProcess) read(name string) ([]record.Span, record.Metrics, error) {
	file, err := os.Open(filepath.Join(c.folder, name))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	return record.Read(file)
}
