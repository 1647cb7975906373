package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestSystemVersion: a delta client is shown how a delta control plane calls what it has
// sent, on the owner of the key and on a node that follows it, as long as it holds all of
// that. Who asks for less, or in SotW, sees a digest, which is the same on each node (D7,
// K11).
func TestSystemVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFollowing(t, config.Delta)
		w.populate()
		var less []*xdstest.Auto
		for _, node := range w.names {
			c := w.client(node, node+"-less", "red", xdstest.Delta)
			c.Subscribe(xdstest.ClusterType, "red-a")
			less = append(less, c)
		}
		for v := 1; v < 6; v++ { // a cluster comes or goes, and another changes
			if v > 1 {
				w.set("red", v)
			}
			w.converged()
			w.settle()
			want := fmt.Sprintf("w%d", v)
			for i, c := range w.clients["red"] {
				got := c.Version(xdstest.ClusterType)
				if everyVariant[i%len(everyVariant)].Delta != (got == want) || got == "" {
					t.Errorf("update %d: client %d (%s) sees the version %q, and the control plane calls it %q", v, i, everyVariant[i%len(everyVariant)], got, want)
				}
			}
			for _, c := range less {
				if got := c.Version(xdstest.ClusterType); got == want && v > 1 || got == "" { // at first it may have been all that was asked for
					t.Errorf("update %d: who asks for one of the clusters sees the version %q, expected a digest", v, got)
				}
			}
			w.versions()
		}
		w.check()
	})
}
