package relay

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"xdsrelay/relay/config"
)

// TestSampleWithoutMetrics: where the metrics cannot be read, or not all of them, the last
// hour has a gap and no sample of nothing, and what was sent meanwhile is not counted as
// sent in a moment.
func TestSampleWithoutMetrics(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Listener.Address, cfg.Admin.Address = "127.0.0.1:0", ""
	n, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.stop()
	for _, partial := range [][]*dto.MetricFamily{nil, {{}}} {
		n.sampleOf(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return partial, errors.New("one of them failed") }))
		if got := n.samples.after(0).Samples; len(got) != 0 {
			t.Errorf("%d samples of what could not be read: %+v", len(got), got)
		}
	}
	n.sample()
	if got := n.samples.after(0).Samples; len(got) != 1 {
		t.Errorf("%d samples once it can be read", len(got))
	}
}
