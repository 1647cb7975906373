package relay_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"xdsrelay/relay"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestNamesNearTheirBound: that the names of a key take four fifths of what they may is
// logged once, with the key, and a metric shows the share before anything is dropped.
func TestNamesNearTheirBound(t *testing.T) {
	origin := xdstest.NewOrigin(t)
	var log lines
	cfg := originConfig(origin.Addr())
	cfg.Upstream.MaxNamesSize = 100_000
	n := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{Delta: true})
	subscribe := func(from, to int) {
		var names []string
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf("%095d", i)) // 100 bytes in a request
		}
		s.Subscribe(resource.EndpointURL, names...)
	}
	const metric = "xdsrelay_upstream_names_utilization_ratio"
	shows := func(want float64) {
		t.Helper()
		xdstest.Eventually(t, fmt.Sprint(metric, " to be ", want), func() bool {
			_, text := n.get(t, "/metrics")
			for line := range strings.Lines(text) {
				if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0], metric) {
					got, err := strconv.ParseFloat(fields[1], 64)
					return err == nil && got == want
				}
			}
			return false
		})
	}
	const warning = "are close to upstream.max_names_size"
	subscribe(0, 790)
	shows(0.79)
	if log.count(warning) != 0 {
		t.Error("there is a warning at 79 %")
	}
	subscribe(790, 810)
	shows(0.81)
	xdstest.Eventually(t, "the warning", func() bool { return log.count(warning) == 1 })
	subscribe(810, 900)
	shows(0.9)
	if log.count(warning) != 1 {
		t.Errorf("the warning is in the log %d times, expected once", log.count(warning))
	}
	if log.count("level=WARN") == 0 || log.count("limit=100000") != 1 {
		t.Error("the warning does not have its level and the limit")
	}
}
