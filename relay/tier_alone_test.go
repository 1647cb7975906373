package relay_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
)

// TestKeptWithoutTheOwner: the owner of a key is dead, and for as long as Redis takes no writes
// it is not known to have gone. The node that serves the key keeps what the control plane sends it
// in its own directory, so that it has that after a restart without the control plane.
func TestKeptWithoutTheOwner(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		directory := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newTierWorld(t, 0, variant, "red")
			w.tierRig = newTierRig(t, w.network, 2, func(cfg *config.Config) {
				cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
				cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, filepath.Join(directory, cfg.Node.Name), 100*time.Millisecond
			})
			owner, other := w.roster.owner("red"), w.other("red")
			w.inhabit(other, "red")
			w.converged()
			w.kill(owner)           // and it stays a member
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time
			w.set("red", 2)
			w.converged()
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time
			w.origin.Stop()
			w.kill(other)
			w.start(other)
			for _, c := range w.clients["red"] {
				c.MoveTo(w.nodes[other].Addr())
			}
			w.newcomers("after the restart", other, "red")
		})
	})
}
