package relay_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// newOperatedWorld is a tierWorld whose nodes have admin ports.
func newOperatedWorld(t *testing.T, nodes int, keys ...string) *tierWorld {
	t.Helper()
	return newOperatedWorldOf(t, nodes, config.Delta, keys...)
}

// newOperatedWorldOf is newOperatedWorld with a variant of the control plane.
func newOperatedWorldOf(t *testing.T, nodes int, variant config.Variant, keys ...string) *tierWorld {
	t.Helper()
	w := newTierWorld(t, 0, variant, keys...)
	token := tokenFile(t)
	w.tierRig = newTierRig(t, w.network, nodes, func(cfg *config.Config) {
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, variant
		cfg.Admin.Address, cfg.REST.Address = "127.0.0.1:0", "127.0.0.1:0"
		cfg.RemovalGuard.MaxPercent, cfg.RemovalGuard.Hold = 50, 0
		cfg.Drain.Duration, cfg.Drain.Grace = 10*time.Second, 5*time.Second
		cfg.Tier.Peer.TokenFile = token
	})
	return w
}

// order asks the admin port of a node.
func (w *tierWorld) order(node, method, path string, into any) (code int, text string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.network.Dial(ctx, address)
	}}}
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.nodes[node].AdminAddr()+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set(admin.RequestHeader, "1")
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		w.t.Fatalf("%s: %v in %s", path, err, data)
	}
	return res.StatusCode, string(data)
}

// other is a node that does not own a key.
func (w *tierWorld) other(key string) string {
	owner := w.roster.owner(key)
	return w.names[slices.IndexFunc(w.names, func(n string) bool { return n != owner })]
}

// TestReconnectOrder: the order to try control planes now is given to one node, and ends
// no stream that works.
func TestReconnectOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		owner := w.roster.owner("red")
		c := w.client(owner, "c-red", "red", xdstest.Delta)
		c.Subscribe(xdstest.ClusterType)
		c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		before := w.origin.Counts().Streams
		for node := range w.nodes {
			if code, text := w.order(node, http.MethodPost, "/reconnect", nil); code != http.StatusAccepted || !strings.Contains(text, `"control_planes": 1`) {
				t.Errorf("%d %s", code, text)
			}
		}
		<-time.After(time.Minute)
		if n := w.origin.Counts().Streams; n != before || c.Stats().Streams != 1 {
			t.Errorf("the origin saw %d streams, expected %d; the client opened %d, expected 1", n, before, c.Stats().Streams)
		}
	})
}

// TestLeaving: a node that is drained hands its keys over before it sends its clients
// away. Clients of other nodes notice nothing; the origin sees one stream for each key
// before and after, and each key moves once (B42).
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red", "blue")
		leaver, heir := w.roster.owner("red"), w.other("red")
		for _, key := range w.keys {
			c := w.client(heir, "c-"+key, key, xdstest.Delta)
			c.Subscribe(xdstest.ClusterType)
			w.clients[key] = append(w.clients[key], c)
		}
		guest := w.client(leaver, "guest", "red", xdstest.Delta)
		guest.Subscribe(xdstest.ClusterType)
		guest.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
		w.converged()
		w.streams(2)
		before, frames := w.origin.Counts().Streams, w.frames()
		mine := 0
		for _, key := range w.keys {
			if w.roster.owner(key) == leaver {
				mine++
			}
		}

		if code, text := w.order(leaver, http.MethodPost, "/drain", nil); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, text)
		}
		if code, text := w.order(leaver, http.MethodPost, "/drain", nil); code != http.StatusConflict {
			t.Errorf("a second time: %d %s", code, text)
		}
		xdstest.Eventually(t, "the keys have moved", func() bool {
			var keys ops.Keys
			w.order(heir, http.MethodGet, "/tier/keys", &keys)
			return !slices.ContainsFunc(keys.Keys, func(k ops.Key) bool {
				return k.Owner != heir || !slices.ContainsFunc(k.Nodes, func(n ops.NodeKey) bool { return n.Node == heir && n.State == "owner" && n.Connected })
			})
		})
		guest.WaitFor(t, "it is sent away", func() bool { return guest.Stats().LastEnd != nil })
		if why := guest.Stats().LastEnd; !strings.Contains(why.Error(), "draining") {
			t.Errorf("the guest's stream ended: %v", why)
		}
		w.nodes[leaver].ended(t)
		w.streams(2)
		if got := w.origin.Counts().Streams - before; got != mine {
			t.Errorf("the origin saw %d new streams, expected %d", got, mine)
		}
		if got := w.frames(); got != frames {
			t.Errorf("clients of the other node were sent %d responses", got-frames)
		}
		for key, clients := range w.clients {
			w.set(key, 2)
			for _, c := range clients {
				if n := c.Stats().Streams; n != 1 {
					t.Errorf("a client has opened %d streams", n)
				}
			}
		}
		w.converged()
	})
}

// TestOneGuard: the owner of a key holds removals back for the whole tier. A node that
// follows it holds nothing back, shows them all the same, and releases them (K16).
func TestOneGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		owner, follower := w.roster.owner("red"), w.other("red")
		w.origin.Remove("red", xdstest.ClusterType, "red-a", "red-b")
		held := func(node string) map[string]int {
			var keys ops.Keys
			w.order(node, http.MethodGet, "/tier/keys?key=red", &keys)
			if len(keys.Keys) != 1 || len(keys.Keys[0].Nodes) != 3 || len(keys.Silent) > 0 {
				t.Fatalf("%+v", keys)
			}
			held := map[string]int{}
			for _, n := range keys.Keys[0].Nodes {
				if n.HeldRemovals > 0 {
					held[n.Node] = n.HeldRemovals
				}
			}
			return held
		}
		xdstest.Eventually(t, "the owner to hold them back", func() bool { return held(follower)[owner] == 2 })
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if all := held(follower); len(all) != 1 {
			t.Errorf("held back: %v, expected by %s alone", all, owner)
		}
		for _, c := range w.clients["red"] {
			if n := len(c.Held(xdstest.ClusterType)); n != 2 {
				t.Errorf("a client has %d clusters", n)
			}
		}
		var done admin.Released
		if code, _ := w.order(follower, http.MethodPost, "/removals/approve?key=red", &done); code != http.StatusOK || done.Removals != 2 {
			t.Errorf("%d: %+v", code, done)
		}
		w.converged()
		if all := held(owner); len(all) != 0 {
			t.Errorf("held back after the release: %v", all)
		}
		w.check()
	})
}

// TestSilentNode: what is asked of all nodes is answered without those that do not
// answer, and says so.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		w.populate()
		w.converged()
		gone, left := "a", "b"
		w.kill(gone)
		w.roster.change(gone, func(m *shard.Member) { m.Draining = false }) // as if it had died
		var keys ops.Keys
		w.order(left, http.MethodGet, "/tier/keys", &keys)
		if len(keys.Keys) != 1 || len(keys.Silent) != 1 || keys.Silent[0].Node != gone || keys.Silent[0].Error == "" {
			t.Errorf("%+v", keys)
		}
	})
}
