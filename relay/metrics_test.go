package relay_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/config"
	"xdsrelay/relay/telemetry"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestMetricsAreThose runs a node with everything turned on, and holds that it exports to Prometheus
// the metrics of docs/reference/metrics.md with their labels, that these pass `promtool check metrics`, and that
// no label has the name of a client, a key or a resource.
func TestMetricsAreThose(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	cfg := testConfig()
	cfg.REST.Address, cfg.Tier.Peer.Address = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Tier.Redis.URL = redis.URL()
	cfg.LastKnownGood.Store, cfg.LastKnownGood.WriteDelay = config.StoreRedis, 100*time.Millisecond
	cfg.Upstream.Directory = t.TempDir()
	writeResources(t, cfg.Upstream.Directory, "clusters.json", xdstest.Cluster("secret-resource", time.Second))
	other := config.DefaultUpstream()
	origin := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	origin.Set("secret-key", xdstest.Runtime("secret-layer", nil))
	other.Addresses = []string{origin.Addr()}
	cfg.Upstreams = append(cfg.AllUpstreams(), config.NamedUpstream{Name: "second", Types: []string{"Runtime"}, Upstream: other})
	n := start(t, cfg)

	picky := func(f *xdstest.Frame) string {
		if slices.Contains(f.Names(), "secret-too") {
			return "no"
		}
		return ""
	}
	for i, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		auto := xdstest.AutoConfig{Addr: n.Addr(), Variant: v, Node: xdstest.Node("secret-client", "secret-key")}
		if i == 1 {
			auto.Nack = picky
		}
		c := xdstest.StartAuto(t, auto)
		c.Subscribe(clusterURL)
		c.Subscribe("type.googleapis.com/secret.Type", "secret-name")
		c.Subscribe(xdstest.RuntimeType, "secret-layer")
		c.WaitHeld(t, clusterURL, "secret-resource")
		c.WaitHeld(t, xdstest.RuntimeType, "secret-layer")
	}
	poller := polled{node: n, path: "/v3/discovery:clusters"}
	if status := poller.poll(t); status != http.StatusOK {
		t.Errorf("a poll got %d", status)
	}
	writeResources(t, cfg.Upstream.Directory, "more.json", xdstest.Cluster("secret-too", time.Second))

	documented := make(map[string]telemetry.Instrument)
	for _, i := range n.Instruments() {
		documented[i.Prometheus] = i
	}
	// Counters with labels of what does not happen here: a failure, a client that accepts gzip; and
	// what is turned off, since it names keys, requires TLS, or is a rollout. Counters without labels start at 0.
	rare := regexp.MustCompile(`^xdsrelay_(downstream_(oversize_responses_total|compressed_responses_total|compression_saved_bytes_total)|upstream_reconnects_total|directory_file_errors_total|key_(clients|resources)|rollout_(hold_duration_seconds|oldest_(pending|wait)_timestamp_seconds)|cache_oldest_disconnect_timestamp_seconds|tls_certificate_not_(before|after)_timestamp_seconds)$`)
	var missing []string
	defer func() {
		if t.Failed() {
			t.Logf("not shown: %v", missing)
		}
	}()
	xdstest.Eventually(t, "all metrics are shown", func() bool {
		families := scrape(t, n, documented)
		missing = nil
		for name := range documented {
			if !slices.Contains(families, name) && !rare.MatchString(name) {
				missing = append(missing, name)
			}
		}
		_, text := n.get(t, "/metrics")
		return len(missing) == 0 && strings.Contains(text, `outcome="nack"`) &&
			strings.Contains(text, `xdsrelay_downstream_propagation_duration_seconds_count{type="envoy.config.cluster.v3.Cluster",variant="sotw"} 1`)
	})
	_, text := n.get(t, "/metrics")
	if strings.Contains(text, "secret") {
		t.Error("a metric names a client, a key or a resource")
	}
	checkMetrics(t, text)
}

// checkMetrics does what `promtool check metrics` does, with its library.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "xdsrelay") {
			t.Errorf("promtool check metrics: %s: %s", p.Metric, p.Text)
		}
	}
}

// scrape returns the names of the metrics that a node shows, and holds that they and
// their labels are documented.
func scrape(t *testing.T, n running, documented map[string]telemetry.Instrument) (names []string) {
	t.Helper()
	_, text := n.get(t, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		if !strings.HasPrefix(name, "xdsrelay") {
			continue
		}
		i, ok := documented[name]
		if !ok {
			t.Errorf("%s is not documented", name)
			continue
		}
		for _, m := range family.Metric {
			for _, pair := range m.Label {
				if v := pair.GetValue(); pair.GetName() != "key" && strings.ContainsAny(v, " \t") {
					t.Errorf("%s has %s=%q, which is no identifier", name, pair.GetName(), v)
				}
				if !allows(i.Labels, pair.GetName(), pair.GetValue()) {
					t.Errorf("%s has %s=%q, which is not documented", name, pair.GetName(), pair.GetValue())
				}
			}
		}
	}
	return slices.Collect(maps.Keys(families))
}

func allows(labels []telemetry.Label, name, value string) bool {
	return slices.ContainsFunc(labels, func(l telemetry.Label) bool {
		switch {
		case l.Name != name:
			return false
		case l.Pattern != "":
			return regexp.MustCompile("^(" + l.Pattern + ")$").MatchString(value)
		}
		return slices.Contains(l.Values, value)
	})
}
