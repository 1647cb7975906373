package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// node is a relay in this process.
type node struct {
	*relay.Node
	end func() // stops it
}

// startRelay starts a relay below a control plane.
func startRelay(t *testing.T, origin, variant string, change ...func(*config.Config)) *node {
	t.Helper()
	cfg := config.Default()
	cfg.Node.Name = "node"
	cfg.Listener.Address, cfg.Admin.Address = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{origin}, config.Variant(variant)
	cfg.Drain.Duration, cfg.Drain.Grace = 10*time.Millisecond, xdstest.Patience
	for _, f := range change {
		f(cfg)
	}
	n, err := relay.New(cfg, relay.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.Run(ctx); err != nil {
			t.Errorf("the relay ended with %v", err)
		}
	}()
	end := func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	xdstest.Eventually(t, "the relay", func() bool { return n.Ready() == nil })
	return &node{n, end}
}

// TestRelay holds that clients of all variants find nothing wrong with a relay,
// whatever changes and however they come back, and that the origin has one
// stream for each key.
func TestRelay(t *testing.T) {
	spec := content.Spec{Keys: 3, Clusters: 12, Listeners: 3, Size: 300}
	for _, upstream := range []string{"delta", "sotw"} {
		for _, cfg := range []Config{{Delta: true}, {}, {Delta: true, PerType: true}, {PerType: true}, {Delta: true, StreamsPerConn: 5}} {
			t.Run(fmt.Sprintf("%s to delta=%v, per type=%v, %d a connection", upstream, cfg.Delta, cfg.PerType, max(cfg.StreamsPerConn, 1)), func(t *testing.T) {
				o := serveOrigin(t, spec)
				n := startRelay(t, o.Addr(), upstream)
				cfg.Addrs, cfg.Clients, cfg.Content = []string{n.Addr()}, 30, spec
				f := newFleet(t, cfg)
				connect(t, f)
				change := func(c content.Change) {
					t.Helper()
					made, err := o.Change(c)
					if err != nil {
						t.Fatal(err)
					}
					await(t, f, made.Revision, c)
				}
				all := func() {
					t.Helper()
					for _, typeURL := range spec.Types() {
						change(content.Change{Kind: content.One, Type: typeURL})
						change(content.Change{Kind: content.Burst, Type: typeURL, Resources: 2})
					}
					change(content.Change{Kind: content.Full})
				}
				all()
				storm := func(versions string) Stormed {
					t.Helper()
					r, err := f.Storm(patience(t), Storm{Versions: versions, Quiet: 200 * time.Millisecond})
					if err != nil || !r.Done {
						t.Fatalf("%s storm: %+v, %v", versions, r, err)
					}
					return r
				}
				// Endpoints that come again after their cluster (E3) may still be on
				// their way when the first begins.
				xdstest.Eventually(t, "a warm storm to bring no resources", func() bool { return storm("warm").Resources == 0 || !cfg.Delta })
				if r := storm("cold"); r.Resources < 30*30 {
					t.Errorf("a cold storm brought %d resources, expected 30 to each of 30 clients", r.Resources)
				}
				if cfg.StreamsPerConn == 5 && upstream == "delta" { // a change while clients are away, which they are sent alone
					made := make(chan error, 1)
					time.AfterFunc(100*time.Millisecond, func() {
						_, err := o.Change(content.Change{Kind: content.Burst, Type: content.EndpointURL, Resources: 2})
						made <- err
					})
					r, err := f.Storm(patience(t), Storm{Versions: "warm", Away: time.Second, Quiet: 200 * time.Millisecond})
					if err = errors.Join(err, <-made); err != nil || !r.Done || r.Resources != 2*30 || r.Resent != 0 {
						t.Errorf("a storm with a change: %+v, %v; expected 2 resources for each client", r, err)
					}
				}
				all()
				if s := well(t, f); s.Connected != 30 || s.Synced != 30 {
					t.Errorf("at the end: %+v", s)
				}
				if s := o.Stats(); s.Streams != 3 {
					t.Errorf("the origin has %d streams, expected one for each of 3 keys", s.Streams)
				}
			})
		}
	}
}

// TestTroubled holds that the clients who keep to the protocol have their
// changes while others are slow, stuck, reject everything or come and go, and
// that none of them breaks the relay.
func TestTroubled(t *testing.T) {
	spec := content.Spec{Keys: 2, Clusters: 10, EndpointSize: 2000}
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) {
			o := serveOrigin(t, spec)
			n := startRelay(t, o.Addr(), "delta")
			f := newFleet(t, Config{
				Addrs: []string{n.Addr()}, Clients: 60, Content: spec, Delta: delta,
				Slow: 10, SlowRate: 200_000, Stuck: 10, Nack: 10, Churn: 20, ChurnEvery: 100 * time.Millisecond,
			})
			connect(t, f)
			plan, err := o.Start(drive.Schedule{
				Change: content.Change{Kind: content.One, Type: content.EndpointURL}, Interval: 5 * time.Millisecond, Count: 100,
			})
			if err != nil {
				t.Fatal(err)
			}
			await(t, f, plan.Last.Revision, content.Change{Kind: content.One, Type: content.EndpointURL})
			s := f.Stats()
			for k, v := range s.Violations {
				t.Errorf("violated %d times: %s: %s", v.Count, k, v.First)
			}
			// Half of 60 clients is in order.
			if s.Propagation.Count != 30*100 || s.Troubled.Count == 0 || s.NACKs == 0 {
				t.Errorf("%d values of propagation, %d of the troubled and %d NACKs, expected 3000 and some",
					s.Propagation.Count, s.Troubled.Count, s.NACKs)
			}
		})
	}
}

// TestRestart holds that clients go on to another relay where one ends, with
// what they hold, and that versions are the same there (K11).
func TestRestart(t *testing.T) {
	spec := content.Spec{Keys: 2, Clusters: 10, Listeners: 2}
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) {
			o := serveOrigin(t, spec)
			one, two := startRelay(t, o.Addr(), "delta"), startRelay(t, o.Addr(), "delta")
			f := newFleet(t, Config{Addrs: []string{one.Addr(), two.Addr()}, Clients: 20, Content: spec, Delta: delta})
			connect(t, f)
			f.Reset()
			one.end()
			c := content.Change{Kind: content.Full}
			made, err := o.Change(c)
			if err != nil {
				t.Fatal(err)
			}
			await(t, f, made.Revision, c)
			xdstest.Eventually(t, "all clients", func() bool { return f.connected.Load() == 20 })
			s := f.Stats()
			for k, v := range s.Violations {
				t.Errorf("violated %d times: %s: %s", v.Count, k, v.First)
			}
			if len(s.Ends) == 0 {
				t.Error("no connection has ended")
			}
		})
	}
}
