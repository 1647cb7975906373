package store_test

import (
	"context"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestMetrics: calls are counted by outcome, and no label contains a key.
func TestMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	server := redistest.Start(t, redistest.Config{})
	s, _ := open(t, server.URL(), func(c *store.Config) { c.Meter = provider.Meter("test") })
	get := func(ctx context.Context) error {
		_, err := s.Get(ctx, s.Name(store.TierHead, "a key"))
		return err
	}
	if err := get(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = get(ended) // not a call at all
	if _, err := s.Run(t.Context(), store.NewScript("bad", "return nonsense()"), nil); err == nil {
		t.Error("nonsense ran")
	}
	server.Kill()
	until(t, s, "calls not to be made", isDown)

	calls, up := map[string]int64{}, int64(-1)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				call, _ := p.Attributes.Value("call")
				outcome, _ := p.Attributes.Value("outcome")
				if m.Name != "xdsrelay.redis.calls" || p.Attributes.Len() != 2 {
					t.Errorf("%s has %v", m.Name, p.Attributes)
				}
				calls[call.AsString()+" "+outcome.AsString()] = p.Value
			}
		case metricdata.Gauge[int64]:
			up = data.DataPoints[0].Value
		}
	}
	if calls["get ok"] != 1 || calls["bad error"] != 1 || calls["get no_answer"] < 3 || calls["get skipped"] < 1 || len(calls) != 4 {
		t.Errorf("calls %v", calls)
	}
	if up != 0 {
		t.Errorf("up is %d", up)
	}
}
