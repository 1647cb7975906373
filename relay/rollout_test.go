package relay_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// rollout gives an order, and fails unless the answer has a status.
func (n running) rollout(t *testing.T, do string, status int, query url.Values) (done ops.RolloutOrdered) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.AdminAddr()+"/rollout/"+do+"?"+query.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(admin.RequestHeader, "1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != status {
		t.Fatalf("%s: status %d, expected %d", do, res.StatusCode, status)
	}
	if err := json.NewDecoder(res.Body).Decode(&done); err != nil {
		t.Fatal(err)
	}
	return done
}

// TestRollout: an operator freezes a key whatever the variant of control plane and clients: no client
// gets what it changes, new ones get what others have, and endpoints flow. What was held back arrives
// together, also after a restart with last known good. An undo goes back to what there was (K12).
func TestRollout(t *testing.T) {
	for _, variant := range []config.Variant{config.Delta, config.SotW} {
		t.Run(string(variant), func(t *testing.T) {
			o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
			cfg := testConfig()
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{o.Addr()}, variant
			cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory, cfg.LastKnownGood.WriteDelay = config.StoreDirectory, t.TempDir(), 100*time.Millisecond
			n := startWith(t, cfg, relay.Options{})
			o.Set("demo", xdstest.Cluster("a", time.Second), xdstest.Endpoints("a", "127.0.0.1:1"), xdstest.Listener("l", "127.0.0.1:1", "r"), xdstest.Route("r", "a"))
			client := func(addr, id string, variant xdstest.Variant) *xdstest.Auto {
				c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: addr, Node: xdstest.Node(id, "demo"), Variant: variant})
				c.Subscribe(xdstest.ClusterType)
				c.Subscribe(xdstest.ListenerType)
				c.Subscribe(xdstest.RouteType, "r")
				c.Subscribe(xdstest.EndpointType, "a")
				return c
			}
			clients := []*xdstest.Auto{client(n.Addr(), "sotw", xdstest.SotW), client(n.Addr(), "delta", xdstest.Delta)}
			all := func(what string, has func(c *xdstest.Auto) bool) {
				t.Helper()
				for _, c := range clients {
					c.WaitFor(t, what, func() bool { return has(c) })
				}
			}
			holds := func(c *xdstest.Auto, typ, name, text string) bool {
				return strings.Contains(string(c.Held(typ)[name].Body), text)
			}
			all("the first configuration", func(c *xdstest.Auto) bool {
				return holds(c, xdstest.EndpointType, "a", "127.0.0.1") && holds(c, xdstest.RouteType, "r", "a") && len(c.Held(xdstest.ListenerType)) == 1
			})
			key := url.Values{ops.ParamKey: {"demo"}, ops.ParamReason: {"test"}}
			n.rollout(t, "freeze", http.StatusNotFound, url.Values{ops.ParamKey: {"no"}, ops.ParamReason: {"test"}})
			n.rollout(t, "freeze", http.StatusBadRequest, url.Values{ops.ParamKey: {"demo"}})
			n.rollout(t, "freeze", http.StatusOK, key)
			if _, text := n.get(t, "/api/v1/live"); !strings.Contains(text, "has 1 key frozen") || !strings.Contains(text, "demo: test") {
				t.Errorf("no warning of the freeze: %s", text)
			}
			o.Set("demo", xdstest.Cluster("b", time.Second), xdstest.Route("r", "b"), xdstest.Listener("m", "127.0.0.1:2", "r"))
			xdstest.Eventually(t, "three changes are held back", func() bool {
				_, text := n.get(t, "/api/v1/rollout?key=demo")
				return strings.Count(text, `"type_url"`) == 3
			})
			o.Set("demo", xdstest.Endpoints("a", "127.0.0.2:1"))
			clients = append(clients, client(n.Addr(), "new", xdstest.Delta))
			frozen := func(c *xdstest.Auto) bool {
				return holds(c, xdstest.EndpointType, "a", "127.0.0.2") && len(c.Held(xdstest.ClusterType)) == 1 && len(c.Held(xdstest.ListenerType)) == 1 && len(c.Held(xdstest.RouteType)) == 1 && !holds(c, xdstest.RouteType, "r", "b")
			}
			all("the old configuration with new endpoints", frozen)
			for _, c := range clients {
				if !frozen(c) {
					t.Errorf("a frozen client has %v", c)
				}
			}
			if _, text := n.get(t, "/debug/check"); !strings.Contains(text, "ok") {
				t.Error(text)
			}
			n.rollout(t, "unfreeze", http.StatusOK, url.Values{ops.ParamKey: {"demo"}})
			released := func(c *xdstest.Auto) bool {
				return len(c.Held(xdstest.ClusterType)) == 2 && len(c.Held(xdstest.ListenerType)) == 2 && holds(c, xdstest.RouteType, "r", "b")
			}
			all("what was held back", released)
			n.rollout(t, "unfreeze", http.StatusConflict, url.Values{ops.ParamKey: {"demo"}})
			if done := n.rollout(t, "undo", http.StatusOK, key); len(done.Revisions) != 1 || done.Changes != 3 {
				t.Errorf("%+v", done)
			}
			all("the configuration before", frozen)
			n.rollout(t, "unfreeze", http.StatusOK, url.Values{ops.ParamKey: {"demo"}})
			all("what was undone", released)
			for _, c := range clients {
				c.CheckViolations(t)
			}
		})
	}
}
