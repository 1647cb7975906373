package xdstest

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// TestGate: what a gate holds back goes through one by one, or all at once, each way by
// itself, and is lost with its stream.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, g := NewMemory(), NewGate()
		o := m.NewStateOrigin(t, nil)
		o.Set("", Cluster("a", time.Second), Endpoints("e", "127.0.0.1:80"), Endpoints("f", "127.0.0.1:80"))
		a := StartAuto(t, AutoConfig{Addr: o.Addr(), Variant: Delta, DialOptions: []grpc.DialOption{m.Option(), g.Option()}})
		sees := func(clusters, endpoints int) {
			t.Helper()
			synctest.Wait()
			if c, e := len(a.Held(ClusterType)), len(a.Held(EndpointType)); c != clusters || e != endpoints {
				t.Fatalf("%d clusters and %d endpoint sets, expected %d and %d; %s", c, e, clusters, endpoints, a)
			}
		}
		synctest.Wait() // for the stream
		g.Close(ToServer)
		a.Subscribe(ClusterType)
		a.Subscribe(EndpointType, "e")
		a.Subscribe(EndpointType, "f")
		sees(0, 0)
		g.Pass(ToServer)
		sees(1, 0)
		g.Close(ToClient)
		if g.Pass(ToClient) {
			t.Error("a response went through that nobody sent")
		}
		g.Open(ToServer)
		sees(1, 0)
		if !g.Pass(ToClient) {
			t.Error("no response is held")
		}
		sees(1, 1)
		g.Open(ToClient)
		sees(1, 2)

		g.Close(BothWays)
		o.Set("", Endpoints("e", "127.0.0.1:81"))
		a.Unsubscribe(EndpointType, "f")
		a.Unsubscribe(ClusterType)
		a.Reconnect()
		sees(0, 1)
		if g.Closed() != BothWays {
			t.Error("a new stream opens the gate")
		}
		g.Open(BothWays)
		sees(0, 1)
		a.CheckViolations(t)
	})
}
