package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// startStaged starts a relay with a rollout policy below a control plane.
func startStaged(t *testing.T, origin string) *node {
	t.Helper()
	return startRelay(t, origin, "delta", func(cfg *config.Config) {
		cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory = config.StoreDirectory, t.TempDir()
		cfg.Aggregation.Rules = []aggregation.Rule{{Name: "all", Key: "node.cluster", Rollout: "quick"}}
	})
}

// TestReject holds that a revision that clients reject reaches a scout alone, which finds nothing wrong with
// what it gets afterwards, and that the control plane gets the reason.
func TestReject(t *testing.T) {
	spec := content.Spec{Keys: 1, Clusters: 5}
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) {
			o := serveOrigin(t, spec)
			n := startStaged(t, o.Addr())
			f := newFleet(t, Config{Addrs: []string{n.Addr()}, Clients: 30, Content: spec, Delta: delta})
			connect(t, f)
			if err := f.React(Reaction{From: 1, How: Reject}); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Change(content.Change{Kind: content.One, Type: content.ClusterURL}); err != nil {
				t.Fatal(err)
			}
			var stats drive.Stats
			xdstest.Eventually(t, "a NACK", func() bool { stats = o.Stats(); return len(stats.Rejections) > 0 })
			if got := stats.Rejections[0]; !strings.Contains(got, RejectionText) || !strings.Contains(got, content.Name(content.ClusterURL, 0, 0)) {
				t.Errorf("the NACK is %q", got)
			}
			change := content.Change{Kind: content.One, Type: content.EndpointURL}
			made, err := o.Change(change)
			if err != nil {
				t.Fatal(err)
			}
			await(t, f, made.Revision, change)
			if e := f.Exposure(time.Hour); e.Clients != 1 || e.Early != 1 || e.Again != 0 || e.Reacted.Before(e.First) {
				t.Errorf("%+v, expected one client", e)
			}
			well(t, f)
		})
	}
}

// TestLeave holds that clients that disconnect with a revision count as such, and get the one before when they
// are back.
func TestLeave(t *testing.T) {
	spec := content.Spec{Keys: 1, Clusters: 5}
	o := serveOrigin(t, spec)
	n := startStaged(t, o.Addr())
	f := newFleet(t, Config{Addrs: []string{n.Addr()}, Clients: 30, Content: spec, Delta: true})
	connect(t, f)
	if err := f.React(Reaction{From: 1, How: Leave}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Change(content.Change{Kind: content.One, Type: content.ClusterURL}); err != nil {
		t.Fatal(err)
	}
	xdstest.Eventually(t, "a client to leave", func() bool { return !f.Exposure(0).Reacted.IsZero() })
	xdstest.Eventually(t, "all clients", func() bool { return f.connected.Load() == 30 && f.synced.Load() == 30 })
	if e := f.Exposure(0); e.Again != 0 || e.Clients == 30 {
		t.Errorf("%+v, expected some clients, each once", e)
	}
	for kind, v := range f.Stats().Violations {
		t.Errorf("violated %d times: %s: %s", v.Count, kind, v.First)
	}
	if err := f.React(Reaction{From: 1, How: "faint"}); err == nil {
		t.Error("an unknown reaction is none to complain about")
	}
}
