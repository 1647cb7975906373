package upstream

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestSnapshotCache: a key follows the snapshots of a real go-control-plane server, and its
// restart, which changes nothing by itself (K14), without a NACK.
func TestSnapshotCache(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		cp := memory.NewControlPlane(t, nil)
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

// TestLinearCache: the same for the linear cache of go-control-plane, in which names appear and
// disappear.
func TestLinearCache(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		cp := memory.NewLinearControlPlane(t)
		cp.SetLinear(t, cluster("a", 1), cluster("b", 1), endpoints("a", 1))
		r := newRig(t, fast(delta, cp.Addr()))
		c := r.join("k").want(cds, "*").want(eds, "a", "later")
		c.waitState(cds, "a b")
		c.waitState(eds, "a")
		cp.SetLinear(t, cluster("c", 1), endpoints("later", 1))
		cp.RemoveLinear(t, cds, "b")
		c.waitState(cds, "a c")
		c.waitState(eds, "a later")
		named := r.join("k").want(cds, "a") // besides the wildcard (D10)
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

// TestNamesAfterTheWildcard: go-control-plane assumes that a client that has unsubscribed from the
// wildcard still has its resources (O3), and ignores an unsubscription from a wildcard that was
// never explicit. A client that subscribes to a name afterwards still receives it, and so does one
// that subscribes to the wildcard again.
func TestNamesAfterTheWildcard(t *testing.T) {
	for name, linear := range map[string]bool{"snapshot": false, "linear": true} {
		t.Run(name, func(t *testing.T) {
			variants(t, func(t *testing.T, delta bool) {
				cp, set := controlPlane(t, linear)
				set(1)
				r := newRigOf(t, must(NewControlPlane(fast(delta, cp.Addr()))), -1)
				r.join("k").want(eds, "e").waitState(eds, "e") // keeps the stream
				c := r.join("k").want(cds, "*")
				c.waitState(cds, "a b")
				left := func(names ...string) {
					t.Helper()
					before := cp.Counts().Requests
					c.drop(cds, names...)
					xdstest.Eventually(t, "the origin to be told", func() bool { return cp.Counts().Requests > before })
				}
				left("*")
				c.want(cds, "a")
				c.waitState(cds, "a")
				set(2)
				xdstest.Eventually(t, "a change", func() bool {
					return string(c.bodies(cds)["a"]) == string(marshal(t, cluster("a", 2)))
				})
				c.drop(cds, "a").want(cds, "*")
				c.waitState(cds, "a b")
				if !delta && !linear {
					return // "*" among names is no wildcard for it
				}
				c.want(cds, "a")
				left("*", "a")
				c.want(cds, "*")
				c.waitState(cds, "a b")
				c.want(cds, "b").drop(cds, "*") // both at once
				c.waitState(cds, "b")
			})
		})
	}
}

// controlPlane returns a go-control-plane server of clusters a and b, endpoints e and route r, and
// the function that sets them.
func controlPlane(t *testing.T, linear bool) (cp *xdstest.ControlPlane, set func(salt int)) {
	resources := func(salt int) []proto.Message {
		return []proto.Message{cluster("a", salt), cluster("b", salt), endpoints("e", salt), route("r", salt)}
	}
	if linear {
		cp = memory.NewLinearControlPlane(t)
		return cp, func(salt int) { cp.SetLinear(t, resources(salt)...) }
	}
	cp = memory.NewLenientControlPlane(t, nil)
	return cp, func(salt int) { cp.SetSnapshot(t, "k", fmt.Sprint(salt), resources(salt)...) }
}
