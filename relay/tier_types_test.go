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
