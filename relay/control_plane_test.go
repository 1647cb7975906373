package relay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// realControlPlane is go-control-plane with one of its caches.
type realControlPlane struct {
	*xdstest.ControlPlane
	set func(version string, resources ...proto.Message)
}

func realControlPlanes(t *testing.T) map[string]realControlPlane {
	snapshots, linear := xdstest.NewControlPlane(t, nil), xdstest.NewLinearControlPlane(t)
	return map[string]realControlPlane{
		"snapshot": {snapshots, func(v string, rs ...proto.Message) { snapshots.SetSnapshot(t, "demo", v, rs...) }},
		"linear":   {linear, func(_ string, rs ...proto.Message) { linear.SetLinear(t, rs...) }},
	}
}

func bothOrigins(t *testing.T, f func(t *testing.T, cp realControlPlane, addr string)) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		for name, cp := range realControlPlanes(t) {
			t.Run(fmt.Sprintf("%s/%s", name, variant), func(t *testing.T) {
				cfg := testConfig()
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{cp.Addr()}, variant
				cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 20*time.Millisecond, 100*time.Millisecond
				f(t, cp, start(t, cfg).Addr())
			})
		}
	}
}

// TestRealControlPlane: clients of both variants follow a real control plane
// through the relay, also across its absence, in which new clients are served
// (K14), and one stream serves them all (K9).
func TestRealControlPlane(t *testing.T) {
	bothOrigins(t, func(t *testing.T, cp realControlPlane, addr string) {
		state := func(v int) []proto.Message {
			return []proto.Message{
				xdstest.Cluster("a", time.Duration(v)*time.Second), xdstest.Cluster("b", time.Second),
				xdstest.Endpoints("a", fmt.Sprintf("127.0.0.1:%d", 1000+v)), xdstest.Endpoints("b", "127.0.0.1:2000"),
			}
		}
		var clients []*xdstest.Auto
		join := func() {
			for i, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
				a := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: addr, Variant: v, Node: xdstest.Node(fmt.Sprint("c", len(clients), i), "demo")})
				a.Subscribe(xdstest.ClusterType)
				a.Subscribe(xdstest.EndpointType, "a", "b")
				clients = append(clients, a)
			}
		}
		converged := func(v int) {
			t.Helper()
			for _, m := range state(v) {
				for _, a := range clients {
					want := string(xdstest.Any(m).GetValue())
					a.WaitFor(t, fmt.Sprintf("%s at version %d", xdstest.NameOf(m), v), func() bool {
						return string(a.Held(xdstest.TypeOf(m))[xdstest.NameOf(m)].Body) == want
					})
				}
			}
		}
		cp.set("1", state(1)...)
		join()
		converged(1)
		cp.set("2", state(2)...)
		converged(2)
		before := cp.Counts()
		if before.Streams != 1 {
			t.Errorf("the control plane saw %d streams for one key", before.Streams)
		}
		cp.Stop()
		join()
		converged(2)
		cp.set("3", state(3)...)
		if err := cp.Start(); err != nil {
			t.Fatal(err)
		}
		converged(3)
		for _, a := range clients {
			a.CheckViolations(t)
		}
		if n := cp.Counts().Nacks; n > 0 {
			t.Errorf("the relay rejected %d responses", n)
		}
	})
}

// TestRealClient: grpc-go's own xDS client calls a backend through what the
// relay tells it, follows a change, and neither it nor one that starts
// meanwhile notices that the control plane is away.
func TestRealClient(t *testing.T) {
	backends := xdstest.Backends(t, 2)
	bothOrigins(t, func(t *testing.T, cp realControlPlane, addr string) {
		cp.set("1", xdstest.GRPCService("svc", backends[0].Addr())...)
		first := newCaller(t, addr, "c1")
		first.reaches(t, backends[0])
		cp.set("2", xdstest.GRPCService("svc", backends[1].Addr())...)
		first.reaches(t, backends[1])

		cp.Stop()
		calls := first.calls.Load()
		second := newCaller(t, addr, "c2")
		second.reaches(t, backends[1])
		xdstest.Eventually(t, "calls without a control plane", func() bool { return first.calls.Load() > calls+20 })

		cp.set("3", xdstest.GRPCService("svc", backends[0].Addr())...)
		if err := cp.Start(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*caller{first, second} {
			c.reaches(t, backends[0])
			if err := c.stop(); err != nil {
				t.Errorf("a call failed: %v", err)
			}
		}
	})
}

// caller is a gRPC client that calls xds:///svc all the time.
type caller struct {
	answers atomic.Pointer[string] // who answered last
	calls   atomic.Int64
	stop    func() error // returns the first failed call
}

func newCaller(t *testing.T, addr, id string) *caller {
	t.Helper()
	resolver, err := xds.NewXDSResolverWithConfigForTesting(fmt.Appendf(nil, `{
		"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
		"node": {"id": %q, "cluster": "demo", "locality": {"region": "r", "zone": "z"}}}`, addr, id))
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient("xds:///svc", grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		pause := time.NewTicker(5 * time.Millisecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			call, done := context.WithTimeout(ctx, xdstest.Patience)
			who, err := xdstest.WhoAnswers(call, cc)
			done()
			if ctx.Err() == nil && err != nil {
				failed <- err
				return
			}
			c.answers.Store(&who)
			c.calls.Add(1)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	}()
	c.stop = func() error {
		cancel()
		err := <-failed
		_ = cc.Close()
		return err
	}
	t.Cleanup(func() { _ = c.stop() })
	return c
}

func (c *caller) reaches(t *testing.T, b *xdstest.Backend) {
	t.Helper()
	xdstest.Eventually(t, "an answer from "+b.Name, func() bool {
		who := c.answers.Load()
		return who != nil && *who == b.Name
	})
}
