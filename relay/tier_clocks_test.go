package relay_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestClocksThatDiffer: each node of a tier says whose clock is wrong, in which direction,
// and by how much; and no age that it shows is negative.
func TestClocksThatDiffer(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	var log lines
	run := func(name string, ahead time.Duration) running {
		cfg := testConfig()
		cfg.Node.Name, cfg.Upstream.Addresses = name, []string{"127.0.0.1:1"}
		cfg.Tier.Redis.URL, cfg.Tier.Peer.Address = redis.URL(), "127.0.0.1:0"
		node, err := relay.New(cfg, relay.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return time.Now().Add(ahead) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			defer close(done)
			done <- node.Run(ctx)
		}()
		n := running{Node: node, stop: stop, done: done}
		t.Cleanup(func() {
			stop()
			n.ended(t)
		})
		return n
	}
	const behind, ahead = "The clock of node b is 1h0m0s behind node a", "The clock of node c is 10m0s ahead of node a"
	nodes := []running{run("a", 0), run("b", -time.Hour-900*time.Millisecond), run("c", 10*time.Minute+900*time.Millisecond)}
	for _, n := range nodes {
		for _, page := range []string{"/readyz?verbose", "/tier/nodes"} {
			xdstest.Eventually(t, page+" to report the clocks", func() bool {
				_, text := n.get(t, page)
				return strings.Contains(text, behind) && strings.Contains(text, ahead) && !strings.Contains(text, "The clock of node a")
			})
		}
		if _, text := n.get(t, "/metrics"); !strings.Contains(text, "\nxdsrelay_tier_clock_skew_seconds") {
			t.Error("/metrics has no difference of clocks")
		}
	}
	if log.count("the clock of a node differs") < 4 || log.count("member=b differs_from=a ahead=-") == 0 {
		t.Error("the log does not say whose clock differs")
	}
}

// TestReadyByAClockThatIsSet: a node waits for tier.owner_timeout to hear which nodes there are (K15),
// also where its clock is set back after its start, as on a machine that has just booted.
func TestReadyByAClockThatIsSet(t *testing.T) {
	cfg := testConfig()
	cfg.Node.Name, cfg.Upstream.Addresses = "a", []string{"127.0.0.1:1"}
	cfg.Tier.Redis.URL, cfg.Tier.Peer.Address = "redis://127.0.0.1:1", "127.0.0.1:0"
	began := time.Now()
	node, err := relay.New(cfg, relay.Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- node.Run(ctx)
	}()
	n := running{Node: node, stop: stop, done: done}
	t.Cleanup(func() {
		stop()
		n.ended(t)
	})
	xdstest.Eventually(t, "the node to be ready", func() bool { return node.Ready() == nil })
	if after := time.Since(began); after < cfg.Tier.OwnerTimeout {
		t.Errorf("it is ready after %s", after)
	}
}
