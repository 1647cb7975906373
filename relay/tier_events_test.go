package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/events"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// eventsOf are the events of the tier as a node shows them, with an answer's after or none.
func (w *tierWorld) eventsOf(node string, query url.Values) (found ops.Events) {
	w.t.Helper()
	if code, text := w.order(node, http.MethodGet, "/api/v1/events?"+query.Encode(), &found); code != http.StatusOK {
		w.t.Fatalf("%d: %s", code, text)
	}
	return found
}

// sawEvent waits until a node shows an event of a kind whose text begins so, and returns the last.
func (w *tierWorld) sawEvent(node string, kind events.Kind, text string) (last events.Seen) {
	w.t.Helper()
	xdstest.Eventually(w.t, fmt.Sprintf("node %s to show %s: %s", node, kind, text), func() bool {
		for _, e := range slices.Backward(w.eventsOf(node, url.Values{"kind": {string(kind)}}).Events) {
			if strings.HasPrefix(e.Text, text) {
				last = e
				return true
			}
		}
		return false
	})
	return last
}

// wire dials, until what leads to one address is cut.
type wire struct {
	dial func(ctx context.Context, address string) (net.Conn, error)

	mu    sync.Mutex
	to    string                // guarded by mu; the address that is cut
	conns map[string][]net.Conn // guarded by mu; by address
}

func (w *wire) Dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if address == w.to {
		return nil, errors.New("cut off")
	}
	c, err := w.dial(ctx, address)
	if err == nil {
		w.conns[address] = append(w.conns[address], c)
	}
	return c, err
}

func (w *wire) cut(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = address
	for _, c := range w.conns[address] {
		_ = c.Close() // the other side sees it end
	}
}

// listedTier is a tier of nodes that know one another by a list, and detect who is there.
func listedTier(t *testing.T, keys ...string) (*tierWorld, *wire) {
	t.Helper()
	w := newTierWorld(t, 0, config.Delta, keys...)
	var list []string
	for i := range 3 {
		list = append(list, fmt.Sprintf("%c=%s", 'a'+i, peerAddr(i)))
	}
	between := &wire{dial: w.network.Dial, conns: make(map[string][]net.Conn)}
	w.tierRig = &tierRig{t: t, network: w.network, roster: &roster{}, nodes: map[string]running{}, configs: map[string]*config.Config{}, options: relay.Options{Version: "v-test", Listen: w.network.Listen, Dial: between.Dial}}
	for i, name := range []string{"a", "b", "c"} {
		cfg := testConfig()
		cfg.Node.Name, cfg.Admin.Address = name, "127.0.0.1:0"
		cfg.Tier.Nodes, cfg.Tier.Peer.Address, cfg.Tier.OwnerTimeout = list, peerAddr(i), ownerTimeout
		cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{w.origin.Addr()}, config.Delta
		cfg.Drain.Duration, cfg.Drain.Grace = 5*time.Second, time.Second
		w.configs[name], w.names = cfg, append(w.names, name)
		w.start(name)
	}
	return w, between
}

// TestEventsOfNodes: nodes that start, join, drain, leave and disappear are events that each node
// shows, once however many nodes saw it; what a node recorded outlives it where it drained.
func TestEventsOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, between := listedTier(t, "red")
		time.Sleep(15 * time.Second) //nolint:forbidigo // virtual time: all have seen all
		w.sawEvent("a", events.NodeStarted, "Node c started with version v-test")
		var code int
		code, _ = w.order("c", http.MethodPost, "/log/level?part=tier&level=INFO", nil)
		if code >= 500 {
			t.Fatal(code)
		}
		w.nodes["c"].stop()
		w.sawEvent("b", events.NodeDraining, "Node c is draining")
		w.nodes["c"].ended(t)
		time.Sleep(25 * time.Second) //nolint:forbidigo // virtual time: longer than the lease
		w.sawEvent("a", events.NodeLeft, "Node c drained and left the tier")
		if e := w.sawEvent("b", events.OperatorCommand, "An operator requested /log/level"); !slices.Equal(e.Nodes, []string{"c"}) {
			t.Errorf("%+v", e)
		}
		drains := w.eventsOf("a", url.Values{"kind": {"node.draining"}}).Events
		if len(drains) != 1 || !slices.Contains(drains[0].Nodes, "c") {
			t.Errorf("draining: %+v", drains)
		}
		w.start("c")
		w.sawEvent("a", events.NodeJoined, "Node c joined the tier")
		reader := w.eventsOf("a", nil).After
		between.cut(peerAddr(1))
		time.Sleep(25 * time.Second) //nolint:forbidigo // virtual time: longer than the lease
		gone := w.sawEvent("a", events.NodeDisappeared, "Node b disappeared without draining")
		if gone.Severity != events.Error || gone.Subject != (events.Subject{About: events.AboutNode, Name: "b"}) {
			t.Errorf("%+v", gone)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		// A reader continues on another node, and gets each event once.
		n := 0
		for _, node := range []string{"c", "a", "c"} {
			next := w.eventsOf(node, url.Values{"after": {reader}, "kind": {"node.disappeared"}})
			n, reader = n+len(next.Events), next.After
		}
		if n != 1 {
			t.Errorf("the reader got %d times that b disappeared", n)
		}
	})
}

// TestEventsOfControlPlanes: a control plane that is lost and back is one event for all nodes, keys
// and clients; a node that cannot reach any is one too; with --key it is found by its keys.
func TestEventsOfControlPlanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red", "blue", "green")
		w.populate()
		w.converged()
		w.origin.Stop()
		lost := w.sawEvent("a", events.ControlPlaneLost, "Control plane "+w.origin.Addr()+" has no stream from the relay")
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		if all := w.eventsOf("b", url.Values{"kind": {"control_plane"}}).Events; len(all) != 1 || all[0].Subject != lost.Subject {
			t.Errorf("%d events: %+v", len(all), all)
		}
		w.sawEvent("c", events.NodeCutOff, "Node a cannot reach the control plane")
		if err := w.origin.Start(); err != nil {
			t.Fatal(err)
		}
		w.sawEvent("c", events.ControlPlaneBack, "Control plane "+w.origin.Addr()+" is reachable again after ")
		w.sawEvent("c", events.NodeReconnected, "Node a reaches the control plane again")
		w.converged()
	})
}

// TestEventsOfOwners: keys that move to another owner are one event with their number.
func TestEventsOfOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		for i := range 30 {
			keys = append(keys, fmt.Sprint("key-", i))
		}
		w := newOperatedWorld(t, 2, keys...)
		w.populate()
		w.converged()
		moved := 0
		for _, key := range keys {
			if w.roster.owner(key) == "b" {
				moved++
			}
		}
		w.nodes["b"].stop()
		e := w.sawEvent("a", events.OwnerMoved, fmt.Sprintf("%d keys moved from node b to node a", moved))
		if len(e.Keys) == 0 || e.Attributes["keys"] != fmt.Sprint(moved) {
			t.Errorf("%+v", e)
		}
		w.nodes["b"].ended(t)
		if all := w.eventsOf("a", url.Values{"kind": {"owner"}, "key": {keys[0]}}).Events; len(all) > 1 {
			t.Errorf("%+v", all)
		}
	})
}

// TestEventsOfTheGuard: removals that are held back, approved, applied after the hold, or applied
// without a guard are events with the key.
func TestEventsOfTheGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		w.populate()
		w.converged()
		w.origin.Remove("red", xdstest.ClusterType, "red-a", "red-b")
		w.sawEvent("b", events.GuardEngaged, "The removal guard holds back 2 removals of 2 resources of 1 key; ")
		if all := w.eventsOf("a", url.Values{"key": {"red"}, "kind": {"removal_guard"}}).Events; len(all) != 1 {
			t.Errorf("%+v", all)
		}
		if all := w.eventsOf("a", url.Values{"key": {"blue"}, "kind": {"removal_guard"}}).Events; len(all) != 0 {
			t.Errorf("%+v", all)
		}
		w.order("a", http.MethodPost, "/removals/approve?key=red", nil)
		w.sawEvent("a", events.GuardApproved, "An operator approved 2 held removals of 1 key")
	})
	for percent, kind := range map[int]events.Kind{50: events.GuardExpired, 0: events.MassRemoval} {
		synctest.Test(t, func(t *testing.T) {
			w := operatedWith(t, 1, func(cfg *config.Config) { cfg.RemovalGuard.MaxPercent, cfg.RemovalGuard.Hold = percent, time.Minute })
			for i := range 10 {
				w.origin.Set("red", xdstest.Cluster(fmt.Sprint("c", i), time.Second))
			}
			w.inhabit("a", "red")
			w.clients["red"][0].WaitFor(t, "ten clusters", func() bool { return len(w.clients["red"][0].Held(xdstest.ClusterType)) >= 10 })
			var gone []string
			for i := range 10 {
				gone = append(gone, fmt.Sprint("c", i))
			}
			w.origin.Remove("red", xdstest.ClusterType, gone...)
			time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
			w.sawEvent("a", kind, "")
		})
	}
}

// TestEventsOfConfiguration: a configuration that is applied, rejected with its reason, or waits for
// a restart is an event, once however often it is read; a node with another configuration and
// another clock, too.
func TestEventsOfConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 1, "red")
		file := filepath.Join(t.TempDir(), "relay.yaml")
		var mu sync.Mutex
		var next config.Config
		var mistake error
		write := func(change func(*config.Config), err error) {
			mu.Lock()
			defer mu.Unlock()
			next, mistake = *w.configs["b"], err
			change(&next)
			if err := os.WriteFile(file, fmt.Append(nil, time.Now().UnixNano()), 0o600); err != nil {
				t.Error(err)
			}
		}
		w.options.Source = relay.Source{File: file, Load: func() (*config.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			c := next
			return &c, mistake
		}}
		w.options.Clock = func() time.Time { return time.Now().Add(10 * time.Minute) }
		alter := w.alter
		w.alter = func(cfg *config.Config) {
			alter(cfg)
			cfg.Upstream.Addresses = append(cfg.Upstream.Addresses, "127.0.0.1:99")
		}
		w.grow(2)
		w.sawEvent("a", events.ConfigMismatch, "Node b has a config mismatch with node a in upstream.addresses")
		w.sawEvent("a", events.ClockDiffers, "The clock of node b differs from that of node a by 10m")

		write(func(*config.Config) {}, errors.New("relay.yaml:3:1: limits.max_streams: got -1"))
		w.sawEvent("a", events.ConfigRejected, "A changed configuration was rejected: relay.yaml:3:1: limits.max_streams: got -1; the previous one stays active")
		for range 3 {
			w.order("b", http.MethodPost, "/config/reload", nil)
		}
		if all := w.eventsOf("a", url.Values{"kind": {"config.rejected"}}).Events; len(all) != 1 {
			t.Errorf("%+v", all)
		}
		write(func(cfg *config.Config) { cfg.Limits.MaxStreams++; cfg.Drain.Duration += time.Second }, nil)
		w.sawEvent("a", events.ConfigApplied, "A changed configuration is active: ")
		write(func(cfg *config.Config) { cfg.Cache.History++ }, nil)
		w.sawEvent("a", events.ConfigRestartRequired, "Changed fields of the configuration require a restart: cache.history")

		w.nodes["b"].stop()
		w.nodes["b"].ended(t)
		w.roster.drop("b")
		w.sawEvent("a", events.ConfigMismatchResolved, "Node b no longer has a config mismatch")
		w.sawEvent("a", events.ClockAgrees, "The clock of node b no longer differs")
	})
}

// TestEventsOfWarnings: a warning that lasts is an event when it starts, and when it ends.
func TestEventsOfWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 1, "red")
		w.origin.Stop()
		w.inhabit("a", "red")
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		started := w.sawEvent("a", events.WarningStarted, "Node a has no configuration for 1 key with clients")
		if started.Subject.Name != "empty" {
			t.Errorf("%+v", started)
		}
		if err := w.origin.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(longestBackoff) //nolint:forbidigo // virtual time
		w.converged()
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		w.sawEvent("a", events.WarningEnded, "No longer: Node a has no configuration for 1 key with clients")
	})
}

// TestEventQueries: mistakes of the asker are answered with what is expected.
func TestEventQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 1, "red")
		for query, want := range map[string]string{
			"kind=nod":      "kind: got \\\"nod\\\"",
			"limit=0":       "limit: got",
			"limit=1001":    "limit: got",
			"since=1m":      "since: got",
			"after=garbage": "after: got",
		} {
			if code, text := w.order("a", http.MethodGet, "/api/v1/events?"+query, nil); code != http.StatusBadRequest || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s", query, code, text)
			}
		}
		one := w.eventsOf("a", url.Values{"limit": {"1"}})
		if len(one.Events) != 1 || one.After == "" {
			t.Errorf("%+v", one)
		}
		if later := w.eventsOf("a", url.Values{"since": {fmt.Sprint(time.Now().Add(time.Hour).Unix())}}); len(later.Events) != 0 {
			t.Errorf("%+v", later)
		}
	})
}
