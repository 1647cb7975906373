package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// TestOwnerWakesUp: an owner whose process did not run for a while, while another node took
// its place, sends nobody back who comes from that one with newer content: clients wait
// until its control plane has spoken, and get what there is then (K12).
func TestOwnerWakesUp(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 0, variant, "red")
			ways := map[string]*xdstest.Network{}
			w.tierRig = newTierRig(t, w.network, 2, func(cfg *config.Config) {
				ways[cfg.Node.Name] = w.network.NewNetwork(t, w.origin.Addr())
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{ways[cfg.Node.Name].Addr()}, variant
			})
			owner, other := w.roster.owner("red"), w.other("red")
			w.populate()
			w.converged()
			w.settle()

			// It hears nothing while it does not run, and the other one takes its place.
			began := time.Now()
			ways[owner].Stall(xdstest.ToClient)
			w.roster.look(func(node string, _ []shard.Member) []shard.Member {
				return []shard.Member{{Name: node, Peer: peerAddr(int(node[0] - 'a'))}}
			})
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			w.set("red", 2)
			n := len(everyVariant)
			i := int(other[0]-'a') * n
			clients := w.clients["red"][i : i+n]
			for _, c := range clients {
				c.WaitFor(t, "the change", func() bool { return len(w.origin.Differences("red", c)) == 0 })
			}
			w.nodes[owner].Slept(began)
			for _, c := range clients {
				c.MoveTo(w.nodes[owner].Addr())
			}
			time.Sleep(500 * time.Millisecond) //nolint:forbidigo // virtual time
			for _, c := range clients {
				if d := w.origin.Differences("red", c); len(d) > 0 {
					t.Errorf("a client was sent back: %q\n%s", d, c)
				}
			}
			ways[owner].Stall(0)
			w.converged()
			w.roster.look(nil)
			w.settle()
			w.converged()
			w.check()
		})
	})
}
