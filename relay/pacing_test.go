package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestMinInterval: downstream.min_interval counts for the clients of a node, and while it runs, it takes
// other intervals: what waits is sent then.
func TestMinInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		origin := network.NewStateOrigin(t, (*corev3.Node).GetCluster)
		v := 0
		change := func() {
			v++
			origin.Update("red", func(c *xdstest.Change) { c.Set(xdstest.Cluster("a", time.Duration(v)*time.Second)) })
			synctest.Wait()
		}
		change()
		cfg := testConfig()
		cfg.Admin.Address, cfg.Upstream.Addresses = "", []string{origin.Addr()}
		next := *cfg
		next.Downstream.MinInterval = []string{"Cluster=1s"}
		first := next
		n := startWith(t, &first, relay.Options{Version: "v-test", Listen: network.Listen, Dial: network.Dial, Source: relay.Source{Load: func() (*config.Config, error) {
			c := next
			return &c, nil
		}}})
		c := network.Client(t, n.Addr())
		c.Node = xdstest.Node("client", "red")
		s := c.Open(xdstest.Delta)
		s.Subscribe(xdstest.ClusterType)
		s.Ack(s.Recv(t))
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		took := func() time.Duration {
			began := time.Now()
			s.Ack(s.Recv(t))
			synctest.Wait()
			return time.Since(began)
		}
		change()
		if got := took(); got > 10*time.Millisecond {
			t.Errorf("the first change took %v", got)
		}
		change()
		change()
		if got := took(); got < 900*time.Millisecond || got > time.Second {
			t.Errorf("the next changes took %v, expected what is left of the interval", got)
		}
		change()
		next.Downstream.MinInterval = nil
		if state, err := n.Reload(); err != nil || len(state.Restart) > 0 {
			t.Fatalf("%+v, %v", state, err)
		}
		for range 3 {
			if got := took(); got > 10*time.Millisecond {
				t.Errorf("without an interval a change took %v", got)
			}
			change()
		}
		took()
		s.Quiet(t, 2*time.Second)
	})
}
