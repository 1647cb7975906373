//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// rolloutPolicy is a policy with certain steps.
const rolloutPolicy = `last_known_good: {store: redis, encryption_keys_file: %q}
tier: {peer: {token_file: %q}}
aggregation:
  rules:
    - {name: all, key: node.cluster, rollout: slow}
rollout:
  budget: ["50%%", "100%%"]
  policies:
    - name: slow
      steps: %s
      canaries: {small: 2}
`

// rolloutStage is a tier of two nodes with a rollout policy.
type rolloutStage struct {
	t       *testing.T
	origin  *xdstest.ControlPlane
	nodes   map[string]relayNode
	state   int
	rejects atomic.Value // of strings: the key whose clients reject what they get
}

// startRolloutStage starts nodes a and b, and clients of each key on each. The names of clients end in suffix.
func startRolloutStage(t *testing.T, steps string, each int, suffix, reason string, keys ...string) *rolloutStage {
	t.Helper()
	redis := redistest.Start(t, redistest.Config{})
	ctx, dir := contextOf(t), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("relay.yaml", fmt.Sprintf(rolloutPolicy, write("keys", "one:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), write("token", "peers-0123456789\n"), steps))
	s := &rolloutStage{t: t, origin: xdstest.NewControlPlane(t, nil), nodes: map[string]relayNode{}}
	s.rejects.Store("")
	for _, key := range keys {
		s.update(key)
	}
	for _, name := range []string{"a", "b"} {
		n := relayNode{
			program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: s.origin.Addr(), variant: "delta",
			flags: []string{"--name", "relay-" + name, "--redis", redis.URL(), "--peer", freeAddress(t), "-c", file},
			env:   []string{"XDSRELAY_TIER_BALANCE_ENABLED=false"},
		}
		n.start(ctx, t, "node "+name)
		s.nodes[name] = n
	}
	for name, n := range s.nodes {
		for _, key := range keys {
			for i := range each {
				id := fmt.Sprintf("%s-%s-%d", key, name, i) + suffix
				c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.listen, Variant: xdstest.Delta, Node: xdstest.Node(id, key), Nack: func(*xdstest.Frame) string {
					if s.rejects.Load() == key {
						return "cluster " + key + ": " + reason
					}
					return ""
				}})
				c.Subscribe(xdstest.ClusterType)
			}
		}
	}
	return s
}

// update makes the origin serve another state of a key.
func (s *rolloutStage) update(key string) {
	s.state++
	s.origin.SetSnapshot(s.t, key, strconv.Itoa(s.state), xdstest.Cluster(key, time.Duration(s.state)*time.Second))
}

func (s *rolloutStage) page(node string) order {
	return order{"do": "open", "url": "http://" + s.nodes[node].admin + "/"}
}

// TestRolloutsPage: the page of each node of a tier shows a rollout as it is: its steps, the canaries and their
// control group, the budget, and what is next; and when it has failed which client rejected which resource, and
// why. It is clean for axe in light and dark, fits on a phone, and obeys the page's policy.
func TestRolloutsPage(t *testing.T) {
	s := startRolloutStage(t, "[{share: 50%, bake: 1h}]", 5, hostileName, refusal, "shop")
	b := startBrowser(t)
	rollouts := click("Rollouts", "#nav")
	for _, node := range []string{"a", "b"} {
		step(t, "the page of node "+node+" has rollouts, of which none is in progress", func() error {
			return b.do(s.page(node), sees("Rollouts", "#nav"), rollouts, sees("1 key with a policy has had no rollout for an hour"), sees("Breaker closed", ".limits"), sees("0 of 5 clients may have unproven revisions", ".limits")) // it knows the clients of all nodes
		})
	}
	s.update("shop")
	for _, node := range []string{"a", "b"} {
		step(t, "the page of node "+node+" shows the step, both groups, and what is next", func() error {
			return b.do(s.page(node), sees("Rollouts", "#nav"), rollouts, sees("In progress", ".rollout"), order{"do": "labeled", "text": "step 2 of 3, 50 %", "within": ".steps"},
				sees("5 of 10 affected clients", ".facts"), sees("Canaries 5 5 0 0 0 not measured", ".arms"), sees("Control 5 – – – 0", ".arms"), sees("all clients, for a final bake of", ".facts"), sees("5 of 5 clients may have unproven revisions", ".limits"), sees("pass", ".findings"))
		})
	}
	step(t, "the overview and the key show it, too", func() error {
		return b.do(view("#/"), sees("In progress", ".rollouts"), view("#/key/shop"), sees("In progress", ".rollout"), view("#/rollouts"))
	})
	s.rejects.Store("shop")
	s.update("shop")
	step(t, "a rollout that failed says who rejected what, and why", func() error {
		return b.do(sees("Held", ".rollout .chip"), sees(hostileName, ".troubles"), sees("rejected CDS shop", ".troubles"), sees(refusal, ".troubles .reason"), order{"do": "labeled", "text": "failed in step 1 of 3, scouts", "within": ".steps"},
			sees("none now", ".facts"), sees("xdsrelay rollout retry", ".facts code"), sees("fail", ".findings"), sees("has failed", "#said"))
	})
	views := []string{"#/rollouts", "#/key/shop", "#/"}
	step(t, "it fits on a phone", func() error { return b.do(order{"do": "fits", "width": 360, "views": views}) })
	for _, scheme := range []string{"dark", "light"} {
		step(t, "it is clean for axe, "+scheme, func() error {
			return b.do(order{"do": "colours", "scheme": scheme}, order{"do": "accessible", "views": views, "width": 1440}, order{"do": "accessible", "views": views, "width": 390})
		})
	}
	step(t, "the page did nothing that it may not", func() error { return b.do(order{"do": "clean"}) })
}

// click clicks on a link.
func click(name, within string) order {
	return order{"do": "click", "role": "link", "name": name, "within": within}
}

// TestRolloutScreenshots takes the picture of rollouts; `make screenshots` runs it.
func TestRolloutScreenshots(t *testing.T) {
	dir := os.Getenv("E2E_SCREENSHOTS")
	if dir == "" {
		t.Skip("E2E_SCREENSHOTS names no folder")
	}
	s := startRolloutStage(t, "[{share: 10%, bake: 2s}, {share: 50%, bake: 40s}]", 60, "", "envoy.filters.http.lua: script load error: [string]:12: '=' expected near 'resp'", "checkout", "search")
	b := startBrowser(t)
	path := filepath.Join(dir, "live-rollout.png")
	if err := b.do(s.page("a"), sees("Rollouts", "#nav"), click("Rollouts", "#nav"), sees("2 keys with a policy have had no rollout")); err != nil {
		t.Fatal(err)
	}
	s.update("search")
	if err := b.do(order{"do": "labeled", "text": "step 3 of 4", "within": ".steps"}); err != nil {
		t.Fatal(err)
	}
	<-time.After(15 * time.Second) // so that there is something of the bake to see
	s.rejects.Store("checkout")
	s.update("checkout")
	if err := b.do(sees("Held", ".rollout .chip"), order{"do": "shot", "path": path, "view": "#/rollouts", "width": 1280, "height": 900, "full": true, "scheme": "light"}); err != nil {
		t.Fatal(err)
	}
	if err := shrink(path); err != nil {
		t.Error(err)
	}
}
