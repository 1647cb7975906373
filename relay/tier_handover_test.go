package relay_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// TestHandedOverByANodeThatIsNotListed: K14: a node whose lease could not be renewed is no member to
// the others. What it holds when it ends is taken over all the same, where the peer port proves that
// it is a node of the tier. Where the port proves nothing, it takes no content by the word of somebody
// who just reaches it.
func TestHandedOverByANodeThatIsNotListed(t *testing.T) {
	for name, try := range map[string]struct {
		proves func(t *testing.T, cfg *config.Peer)
		taken  bool
	}{
		"nothing": {proves: func(*testing.T, *config.Peer) {}},
		"token":   {proves: func(t *testing.T, cfg *config.Peer) { cfg.TokenFile = tokenFile(t) }, taken: true},
		"certificates": {proves: func(t *testing.T, cfg *config.Peer) {
			dir, a := t.TempDir(), xdstest.NewAuthority(t, "tier")
			cert, key := a.Issue("127.0.0.1", "node")
			for file, text := range map[string][]byte{"cert": cert, "key": key, "ca": a.PEM} {
				if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cfg.TLS.CertFile, cfg.TLS.KeyFile, cfg.TLS.CAFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
		}, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var peer config.Peer
				try.proves(t, &peer)
				network := xdstest.NewMemory()
				w := &tierWorld{origin: network.NewStateOrigin(t, (*corev3.Node).GetCluster), keys: []string{"red"}, clients: map[string][]*xdstest.Auto{}}
				w.set("red", 1)
				w.tierRig = newTierRig(t, network, 2, func(cfg *config.Config) {
					cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, config.Delta
					cfg.Tier.Peer.TokenFile, cfg.Tier.Peer.TLS = peer.TokenFile, peer.TLS
				})
				ends := w.roster.owner("red")
				heir := w.names[1-slices.Index(w.names, ends)]
				w.inhabit(ends, "red")
				w.converged()
				for _, c := range w.clients["red"] {
					c.Close()
				}
				w.clients["red"] = nil
				w.roster.look(func(node string, all []shard.Member) []shard.Member {
					return slices.DeleteFunc(all, func(m shard.Member) bool { return node == heir && m.Name == ends })
				})
				w.origin.Stop()
				time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
				w.nodes[ends].stop()
				w.nodes[ends].ended(t)
				w.roster.drop(ends)
				if try.taken {
					w.newcomers("the node that held it was not listed, and has ended", heir, "red")
					return
				}
				w.inhabit(heir, "red")
				time.Sleep(servedWithin) //nolint:forbidigo // virtual time
				for _, c := range w.clients["red"] {
					if held := c.Held(xdstest.ClusterType); len(held) > 0 {
						t.Errorf("%q came from a node that did not prove to be one", held)
					}
				}
			})
		})
	}
}
