package upstream

import (
	"testing"

	"xdsrelay/relay/xdstest"
)

// TestSnapshotCache: a key follows the snapshots of a real go-control-plane
// server, and its restart, which changes nothing by itself (K14), without a NACK.
func TestSnapshotCache(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		cp := xdstest.NewControlPlane(t, nil)
		cp.SetSnapshot(t, "k", "1", cluster("a", 1), cluster("b", 1), endpoints("a", 1), endpoints("b", 1))
		cp.SetSnapshot(t, "other", "1", cluster("secret", 1))
		c := newRig(t, fast(delta, cp.Addr())).join("k").want(cds, "*").want(eds, "a", "b")
		c.waitState(cds, "a b")
		c.waitState(eds, "a b")
		cp.SetSnapshot(t, "k", "2", cluster("a", 2), cluster("c", 1), endpoints("a", 2), endpoints("c", 1))
		c.want(eds, "c").drop(eds, "b")
		c.waitState(cds, "a c")
		c.waitState(eds, "a c")
		is := func(what string, salt int) {
			t.Helper()
			xdstest.Eventually(t, what, func() bool {
				return string(c.bodies(cds)["a"]) == string(marshal(t, cluster("a", salt)))
			})
		}
		is("the second snapshot", 2)
		gen := c.sees(cds).To.Gen

		// K14: the same content after a restart changes nothing.
		cp.Stop()
		c.waitUpstream(false)
		if err := cp.Start(); err != nil {
			t.Fatal(err)
		}
		c.waitUpstream(true)
		if got := c.sees(cds).To.Gen; got != gen {
			t.Fatalf("generation %d after %d: a restart brought changes", got, gen)
		}
		cp.Stop()
		cp.SetSnapshot(t, "k", "3", cluster("a", 3), endpoints("a", 2), endpoints("c", 1))
		if err := cp.Start(); err != nil {
			t.Fatal(err)
		}
		is("the snapshot set during the outage", 3)
		c.waitState(cds, "a")
		if n := cp.Counts().Nacks; n != 0 {
			t.Fatalf("%d NACKs", n)
		}
	})
}

// TestLinearCache: the same for go-control-plane's linear cache, which knows
// names that come and go.
func TestLinearCache(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		cp := xdstest.NewLinearControlPlane(t)
		cp.SetLinear(t, cluster("a", 1), cluster("b", 1), endpoints("a", 1))
		r := newRig(t, fast(delta, cp.Addr()))
		c := r.join("k").want(cds, "*").want(eds, "a", "later")
		c.waitState(cds, "a b")
		c.waitState(eds, "a")
		cp.SetLinear(t, cluster("c", 1), endpoints("later", 1))
		cp.RemoveLinear(t, cds, "b")
		c.waitState(cds, "a c")
		c.waitState(eds, "a later")
		named := r.join("k").want(cds, "a") // beside the wildcard (D10)
		named.waitState(cds, "a")
		cp.SetLinear(t, cluster("d", 1))
		c.waitState(cds, "a c d")
		cp.Stop()
		cp.RemoveLinear(t, cds, "c")
		if err := cp.Start(); err != nil {
			t.Fatal(err)
		}
		c.waitState(cds, "a d")
		if n := cp.Counts().Nacks; n != 0 {
			t.Fatalf("%d NACKs", n)
		}
	})
}
