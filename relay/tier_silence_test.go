package relay_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/xdstest"
)

// TestSilenceIsNotPassedOn: a control plane answers for clusters and is silent about endpoints for
// longer than nodes wait. Clients that wait hear that there are none, on each node. A client that
// returns with some keeps them, also where its node asks the owner of the key, and hears what
// became of them once the control plane has answered (C12, K14).
func TestSilenceIsNotPassedOn(t *testing.T) {
	for _, returns := range []string{"before the wait is over", "after it"} {
		t.Run("a client returns "+returns, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := scriptedTier(t)
				var waiting, back []*xdstest.Stream
				resume := func() {
					for _, node := range w.names {
						s := w.stream(node, xdstest.Delta)
						s.Resume(xdstest.EndpointType, "", map[string]string{"a": "1", "b": "1"}, "a", "b")
						back = append(back, s)
					}
				}
				for _, node := range w.names {
					s := w.stream(node, xdstest.Delta)
					s.Subscribe(xdstest.ClusterType)
					s.Subscribe(xdstest.EndpointType, "a")
					waiting = append(waiting, s)
				}
				up := o.NextStream(t)
				if returns == "before the wait is over" {
					resume()
				}
				up.Respond(t, xdstest.ClusterType, "1", xdstest.Cluster("a", time.Second))
				for _, s := range waiting {
					s.Ack(s.RecvType(t, xdstest.ClusterType))
				}
				time.Sleep(16 * time.Second) //nolint:forbidigo // virtual time: longer than upstream.resource_timeout
				if returns == "after it" {
					resume()
				}
				for i, s := range waiting {
					f := s.RecvType(t, xdstest.EndpointType)
					if s.Ack(f); !slices.Equal(f.Removed, []string{"a"}) {
						t.Errorf("on node %s a client that waits was sent %v", w.names[i], f)
					}
				}
				for _, s := range back {
					s.Quiet(t, 20*time.Second)
				}
				up.Respond(t, xdstest.EndpointType, "2", xdstest.Endpoints("b", "127.0.0.1:1"))
				for i, s := range back {
					var resources, removed []string
					for len(resources)+len(removed) < 2 {
						f := s.RecvType(t, xdstest.EndpointType)
						s.Ack(f)
						resources, removed = append(resources, f.Names()...), append(removed, f.Removed...)
					}
					if !slices.Equal(resources, []string{"b"}) || !slices.Equal(removed, []string{"a"}) {
						t.Errorf("on node %s a client that returned was sent %v and the removals %v", w.names[i], resources, removed)
					}
				}
				w.check()
			})
		})
	}
}
