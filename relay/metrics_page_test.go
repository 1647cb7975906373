package relay_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/telemetry"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// metricsPage is the page that lists the metrics.
var metricsPage = filepath.Join("..", "docs", "reference", "metrics.md")

// TestMetricsPage: docs/reference/metrics.md lists the metrics that a node with everything
// turned on makes.
func TestMetricsPage(t *testing.T) {
	instruments := allInstruments(t)
	for _, i := range instruments {
		if i.Description == "" || i.Prometheus == "" {
			t.Errorf("%s lacks a description, or a name in Prometheus", i.Name)
		}
		if i.Labels == nil {
			t.Errorf("relay/telemetry/labels.go lacks the labels of %s: an empty list if it has none", i.Name)
		}
	}
	page := telemetry.Page(instruments)
	if *update {
		if err := os.WriteFile(metricsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(metricsPage); err != nil || string(there) != page {
		t.Errorf("%s is not what the code says (%v): run `go test ./relay -run TestMetricsPage -update`", metricsPage, err)
	}
}

// allInstruments are the metrics of a node with everything turned on, which never
// serves.
func allInstruments(t *testing.T) []telemetry.Instrument {
	t.Helper()
	cfg := testConfig()
	cfg.REST.Address, cfg.Tier.Peer.Address = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.Addresses = []string{"127.0.0.1:1"}
	files := config.DefaultUpstream()
	files.Directory = t.TempDir()
	cfg.Upstreams = append(cfg.AllUpstreams(), config.NamedUpstream{Name: "files", Types: []string{"Runtime"}, Upstream: files})
	cfg.Tier.Redis.URL = "redis://127.0.0.1:1"
	cfg.Telemetry.TopKeys = 5
	cfg.LastKnownGood.Store = config.StoreRedis
	n, err := relay.New(cfg, relay.Options{Version: "v-test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	end()
	if err := n.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return n.Instruments()
}
