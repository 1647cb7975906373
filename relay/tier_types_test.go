package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestFollowerTypes: clients of a follower that ask for more types than a stream
// between nodes has room for do not end that stream: the others get their updates,
// and types that xDS defines always have room.
func TestFollowerTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, config.Delta)
		plain := w.client(w.follower, "1", "red", xdstest.Delta)
		plain.Subscribe(xdstest.ClusterType, "red-a", "red-b")
		plain.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		for i := range 3 {
			bad := w.client(w.follower, fmt.Sprint("bad", i), "red", xdstest.Delta)
			for j := range 20 {
				bad.Subscribe(fmt.Sprintf("type.googleapis.com/invented.Type%d", i*20+j), "x")
			}
		}
		late := w.client(w.follower, "late", "red", xdstest.Delta)
		late.Subscribe(xdstest.ListenerType, "red-l")
		late.Subscribe(xdstest.EndpointType, "red-a")
		late.Subscribe(xdstest.SecretType, "x")
		late.Subscribe(xdstest.RuntimeType, "x")
		late.Subscribe(xdstest.RouteType, "red-r")
		late.WaitHeld(t, xdstest.RouteType, "red-r")
		for v := range 30 {
			w.set("red", v+2)
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			want := xdstest.Any(xdstest.Cluster("red-a", time.Duration(v+2)*time.Second)).GetValue()
			if got := plain.Held(xdstest.ClusterType)["red-a"]; string(got.Body) != string(want) {
				t.Fatalf("change %d has not come within a second", v+2)
			}
		}
		w.streams(1) // the follower has not gone to the origin
		w.clients["red"] = []*xdstest.Auto{plain, late}
		w.converged()
		w.check()
	})
}

// TestUnknownTypeInATier: go-control-plane ends a stream on which it is asked for a type
// that it does not know. Whoever asks for it, on the node that owns the key or on one
// that follows, the others get their updates, and no node but the owner goes to the
// origin. Who has asked hears nothing, as of an origin that is silent (K13), and stays.
func TestUnknownTypeInATier(t *testing.T) {
	const unknown = "type.googleapis.com/unknown.Type"
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			network := xdstest.NewMemory()
			cp := network.NewLinearControlPlane(t)
			set := func(v int) []byte {
				c := xdstest.Cluster("a", time.Duration(v+1)*time.Second)
				cp.SetLinear(t, c)
				return xdstest.Any(c).GetValue()
			}
			set(0)
			r := newTierRig(t, network, 2, func(cfg *config.Config) {
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{cp.Addr()}, variant
			})
			var good, bad []*xdstest.Auto
			for _, node := range r.names {
				for i, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
					g, b := r.client(node, fmt.Sprint("good", i), "red", v), r.client(node, fmt.Sprint("bad", i), "red", v)
					g.Subscribe(xdstest.ClusterType)
					b.Subscribe(unknown, "x")
					good, bad = append(good, g), append(bad, b)
				}
			}
			for _, g := range good {
				g.WaitHeld(t, xdstest.ClusterType, "a")
			}
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			before := make([]int, len(bad))
			for i, b := range bad {
				before[i] = b.Stats().Streams
			}
			for v := range 60 {
				want := set(v)
				time.Sleep(500 * time.Millisecond) //nolint:forbidigo // virtual time
				for i, g := range good {
					if got := g.Held(xdstest.ClusterType)["a"].Body; string(got) != string(want) {
						t.Fatalf("client %d has not got change %d", i, v)
					}
				}
				if open := cp.Counts().Open; open > 2 {
					t.Fatalf("%d streams to the origin", open)
				}
			}
			for i, b := range bad {
				if n := b.Stats().Streams - before[i]; n > 0 || len(b.Held(unknown)) > 0 {
					t.Errorf("client %d of the unknown type opened %d streams and holds %v", i, n, b.Held(unknown))
				}
			}
			r.check()
		})
	})
}
