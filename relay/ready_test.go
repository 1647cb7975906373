package relay_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// deaf are members of which nothing is heard.
type deaf struct{ shard.Members }

func (deaf) Answered() bool { return false }

// TestReadyWaitsForMembers: a node is not ready, and says why, until it has heard which
// nodes are in the tier, for tier.owner_timeout at most: before that it takes itself for
// the owner of everything.
func TestReadyWaitsForMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		cfg := testConfig()
		cfg.Admin.Address = ""
		cfg.Upstream.Addresses = []string{network.NewStateOrigin(t, nil).Addr()}
		began := time.Now()
		node, err := relay.New(cfg, relay.Options{Listen: network.Listen, Dial: network.Dial, Members: func(self shard.Member) shard.Members { return deaf{shard.NewSolo(self)} }})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		done := make(chan error, 1)
		go func() { done <- node.Run(ctx) }()
		t.Cleanup(func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := node.Ready(); err == nil || err.Error() != "starting: waiting up to 2s for the list of nodes of the tier" {
			t.Errorf("ready: %v", err)
		}
		xdstest.Eventually(t, "the node is ready", func() bool { return node.Ready() == nil })
		if took := time.Since(began); took < cfg.Tier.OwnerTimeout || took > cfg.Tier.OwnerTimeout+time.Second {
			t.Errorf("ready after %s", took)
		}
	})
}

// TestReadyForItsShare: a node that lacks content for some of its keys is not ready while
// another node, which may have it, cannot be asked; and ready once that node has answered,
// or nobody has the content.
func TestReadyForItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTierWorld(t, 2, config.Delta, "red", "blue", "nobody")
		cables := w.wire()
		red := w.roster.owner("red")
		other := w.other("red")
		at := func(name string) string { return peerAddr(int(name[0] - 'a')) }
		w.inhabit(red, "red")
		w.inhabit(other, "blue")
		w.converged()
		w.origin.Stop()
		cables[other].set(at(red), true)
		cables[red].set(at(other), true)
		w.inhabit(other, "red")
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
		err := w.nodes[other].Ready()
		if want := "1 of 2 keys with clients have no configuration, and nodes that may have it cannot be asked (" + red + ")"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ready: %v, expected %q", err, want)
		}
		if err := w.nodes[red].Ready(); err != nil {
			t.Errorf("the node that has all is not ready: %v", err)
		}
		cables[other].set(at(red), false)
		cables[red].set(at(other), false)
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time: they connect again within two
		if err := w.nodes[other].Ready(); err != nil {
			t.Errorf("still not ready: %v", err)
		}
		w.nothingLost("the nodes see each other again")
		w.inhabit(other, "nobody")
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
		if err := w.nodes[other].Ready(); err != nil {
			t.Errorf("not ready for what nobody has: %v", err)
		}
	})
}

// TestUnwritableLastGood: that the last known good state cannot be written is shown before
// it is needed.
func TestUnwritableLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		w := newTierWorld(t, 0, config.Delta, "red")
		w.tierRig = newTierRig(t, w.network, 1, func(cfg *config.Config) {
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, config.Delta
			cfg.Admin.Address = "127.0.0.1:0"
			cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, dir, 100*time.Millisecond
		})
		shown := func() (text string) {
			code, text := w.order("a", http.MethodGet, "/readyz?verbose", nil)
			if code != http.StatusOK {
				t.Errorf("%d %s", code, text)
			}
			return text
		}
		w.inhabit("a", "red")
		w.converged()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		if text := shown(); strings.Contains(text, "last known good") {
			t.Errorf("%s", text)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.set("red", 2)
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		if text := shown(); !strings.Contains(text, "cannot write last known good") || !strings.Contains(text, "not a directory") {
			t.Errorf("%s", text)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if text := shown(); strings.Contains(text, "last known good") {
			t.Errorf("it can be written again: %s", text)
		}
	})
}
