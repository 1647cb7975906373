package relay_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// TestMassRemovalIsReported: without a guard a mass removal is done, and leaves a line in
// the log and a count in the metrics (K16).
func TestMassRemovalIsReported(t *testing.T) {
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	var log lines
	cfg := testConfig()
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{o.Addr()}, config.Delta
	n := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("c", i))
		o.Set("demo", xdstest.Cluster(names[i], time.Second))
	}
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Node: xdstest.Node("c", "demo")})
	c.Subscribe(xdstest.ClusterType)
	c.WaitHeld(t, xdstest.ClusterType, names...)
	o.Remove("demo", xdstest.ClusterType, names[1:]...)
	c.WaitHeld(t, xdstest.ClusterType, names[0])
	xdstest.Eventually(t, "a line in the log", func() bool { return log.count("removed most of a complete set") == 1 })
	if log.count("key=demo type="+xdstest.ClusterType) == 0 || log.count("removals=9 of=10") != 1 {
		t.Errorf("the log does not say of which key, or how many")
	}
	if _, metrics := n.get(t, "/metrics"); !strings.Contains(metrics, "xdsrelay_removal_guard_mass_removals_total 1") {
		t.Error("/metrics does not count it")
	}
}

// TestHeldRemovalsAreShown: an operator learns of removals that are held back from
// the log, once, from the metrics and from the page of keys (K16).
func TestHeldRemovalsAreShown(t *testing.T) {
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	var log lines
	cfg := testConfig()
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{o.Addr()}, config.Delta
	cfg.RemovalGuard.MaxPercent = 50
	n := startWith(t, cfg, relay.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	o.Set("demo", xdstest.Cluster("a", time.Second), xdstest.Cluster("b", time.Second))
	c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Node: xdstest.Node("c", "demo")})
	c.Subscribe(xdstest.ClusterType)
	c.WaitFor(t, "both clusters", func() bool { return len(c.Held(xdstest.ClusterType)) == 2 })
	o.Remove("demo", xdstest.ClusterType, "a", "b")
	o.Set("demo", xdstest.Cluster("c", time.Second))
	c.WaitFor(t, "the third cluster", func() bool { return len(c.Held(xdstest.ClusterType)) == 3 })

	_, metrics := n.get(t, "/metrics")
	for _, want := range []string{"xdsrelay_removal_guard_holds_total 1", "xdsrelay_removal_guard_held_resources 2"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if _, keys := n.get(t, "/debug/keys"); !strings.Contains(keys, "3 (2 held removals)") {
		t.Errorf("the page of keys does not show them:\n%s", keys)
	}
	// Clients do not wait for the log.
	xdstest.Eventually(t, "a line in the log", func() bool { return log.count("removal guard engaged") > 0 })
	if got := log.count("removal guard engaged"); got != 1 {
		t.Errorf("%d lines in the log", got)
	}
}
