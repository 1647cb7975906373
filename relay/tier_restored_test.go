package relay_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestRestoredFollower: a tier that starts anew while the origin is down, and whose
// nodes have each kept what they knew, takes nothing from anybody, whether a node
// follows another one or not (K14).
func TestRestoredFollower(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			owner := w.roster.owner("red")
			var other string
			for _, name := range w.names {
				w.kill(name)
				w.roster.drop(name)
				c := w.configs[name]
				c.LastKnownGood.Store, c.LastKnownGood.Directory, c.LastKnownGood.WriteDelay = config.StoreDirectory, filepath.Join(dir, name), 100*time.Millisecond
				if name != owner {
					other = name
				}
			}
			// Each has owned the key, and so has kept it.
			w.start(other)
			w.inhabit(other, "red")
			w.converged()
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			w.start(owner)
			time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
			w.streams(1)

			w.origin.Stop()
			for _, name := range w.names {
				w.kill(name)
			}
			w.start(other)
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // virtual time
			w.start(owner)
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			for _, c := range w.clients["red"] {
				if d := w.origin.Differences("red", c); len(d) > 0 || strings.Contains(c.String(), "removed=") {
					t.Errorf("something was taken: %q\n%s", d, c)
				}
			}
			if err := w.origin.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(longestBackoff) //nolint:forbidigo // virtual time
			w.converged()
			w.check()
		})
	})
}

// TestOwnerWithAnOldState: a node comes back as the owner of a key while the origin is
// down, with a state that it kept long ago. Who follows it knows better, and sends
// nobody back; clients that hold nothing get something all the same (K12, K14). That
// there is nothing any more is knowledge, too.
func TestOwnerWithAnOldState(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		t.Run("newer", func(t *testing.T) { ownerWithAnOldState(t, variant, func(w *tierWorld) { w.set("red", 2) }) })
		t.Run("nothing", func(t *testing.T) { ownerWithAnOldState(t, variant, func(w *tierWorld) { w.empty("red", variant) }) })
	})
}

func ownerWithAnOldState(t *testing.T, variant config.Variant, change func(*tierWorld)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 2, variant, "red")
		owner := w.roster.owner("red")
		other := w.other("red")
		for _, name := range w.names {
			w.kill(name)
			w.roster.drop(name)
		}
		c := w.configs[owner]
		c.LastKnownGood.Store, c.LastKnownGood.Directory, c.LastKnownGood.WriteDelay = config.StoreDirectory, filepath.Join(dir, owner), 100*time.Millisecond

		w.start(owner) // and it keeps what is there now
		w.inhabit(owner, "red")
		w.converged()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		w.kill(owner)
		w.roster.drop(owner)
		for _, c := range w.clients["red"] {
			c.Close()
		}
		w.clients["red"] = nil

		change(w)
		w.start(other)
		w.inhabit(other, "red")
		w.converged()
		w.settle()
		w.origin.Stop()
		sent := w.frames()
		w.start(owner)
		w.settle()
		if n := w.frames() - sent; n > 0 {
			t.Errorf("clients were sent %d responses", n)
		}
		for _, c := range w.clients["red"] {
			if d := w.origin.Differences("red", c); len(d) > 0 {
				t.Errorf("a client was sent back: %q\n%s", d, c)
			}
		}
		if err := w.origin.Start(); err != nil {
			t.Fatal(err)
		}
		w.inhabit(owner, "red")
		w.settle()
		w.converged()
		w.streams(1)
		w.check()
	})
}

// TestClientKnowsMore: a client comes to a node that starts while the origin is down,
// and that has kept an older state than the client has. What that lacks is not gone
// before the origin has said so (K14).
func TestClientKnowsMore(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 2, variant, "red")
			old, other := w.names[0], w.names[1]
			for _, name := range w.names {
				w.kill(name)
				w.roster.drop(name)
			}
			c := w.configs[old]
			c.LastKnownGood.Store, c.LastKnownGood.Directory, c.LastKnownGood.WriteDelay = config.StoreDirectory, dir, 100*time.Millisecond
			w.start(old) // and it keeps what is there now
			w.inhabit(old, "red")
			w.converged()
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			w.kill(old)
			w.roster.drop(old)
			for _, c := range w.clients["red"] {
				c.Close()
			}
			w.clients["red"] = nil

			w.set("red", 2) // with a cluster more
			w.start(other)
			w.inhabit(other, "red")
			w.settle()
			w.converged()
			w.origin.Stop()
			w.kill(other)
			w.roster.drop(other)
			w.start(old)
			var all []*xdstest.Auto
			for i, c := range w.clients["red"] {
				if everyVariant[i].Delta {
					all = append(all, c)
				}
				c.MoveTo(w.nodes[old].Addr())
			}
			w.settle()
			for _, c := range all {
				if _, is := c.Held(xdstest.ClusterType)["red-c"]; !is || !c.Connected() {
					t.Errorf("what only the client knows was taken away:\n%s", c)
				}
			}
			w.set("red", 3) // without it
			if err := w.origin.Start(); err != nil {
				t.Fatal(err)
			}
			w.settle()
			w.converged()
			w.check()
		})
	})
}

// TestClaimsThatCross: C8, K12, K14: a node with a state that it kept long ago asks the owner
// of a key, and claims what it has. Before the owner hears that, the node takes newer content
// from a third one, and the control plane is back with the state of long ago: the owner has
// nothing to say against the claims. They do not confirm what was taken after them.
func TestClaimsThatCross(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		t.Run("other content", func(t *testing.T) { claimsThatCross(t, variant, 3) })
		t.Run("another name", func(t *testing.T) { claimsThatCross(t, variant, 2) })
	})
}

// claimsThatCross does so with another state that the others have meanwhile.
func claimsThatCross(t *testing.T, variant config.Variant, meanwhile int) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 0, variant, "red")
		ways := make(map[string]*xdstest.Network) // to the peer port of each node
		var members []string
		for i, name := range []string{"a", "b", "c"} {
			ways[name] = w.network.NewNetwork(t, peerAddr(i))
			members = append(members, name+"="+ways[name].Addr())
		}
		w.tierRig = newTierRig(t, w.network, len(members), func(cfg *config.Config) {
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
			cfg.Upstream.Backoff.Initial, cfg.Upstream.Backoff.Max = 50*time.Millisecond, 50*time.Millisecond
			cfg.Tier.Peer.AdvertiseAddress, cfg.Tier.Nodes = ways[cfg.Node.Name].Addr(), members
		})
		owner, late := w.roster.owner("red"), w.other("red")
		for _, name := range w.names {
			w.kill(name)
			w.roster.drop(name)
		}
		c := w.configs[late]
		c.LastKnownGood.Store, c.LastKnownGood.Directory, c.LastKnownGood.WriteDelay = config.StoreDirectory, dir, 100*time.Millisecond
		w.start(late) // and it keeps what is there now
		w.inhabit(late, "red")
		w.converged()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		w.kill(late)
		w.roster.drop(late)
		for _, c := range w.clients["red"] {
			c.Close()
		}
		w.clients["red"] = nil

		w.set("red", meanwhile)
		for _, name := range w.names {
			if name != late {
				w.start(name)
				w.inhabit(name, "red")
			}
		}
		w.start(late)
		for i := 0; ; i++ { // a key of the same owner, for a connection to it
			if key := fmt.Sprintf("key-%d", i); w.roster.owner(key) == owner {
				w.set(key, 1)
				w.inhabit(late, key)
				break
			}
		}
		w.settle()
		w.converged()
		w.origin.Stop()
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // virtual time
		ways[owner].Delay(time.Second)
		w.inhabit(late, "red")
		time.Sleep(800 * time.Millisecond) //nolint:forbidigo // virtual time
		w.set("red", 1)
		if err := w.origin.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
		ways[owner].Delay(0)
		w.settle()
		w.converged()
		w.streams(2)
		w.check()
	})
}
