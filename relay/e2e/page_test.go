//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// hostileName is a client's that would be more than a name in a careless page.
const hostileName = `<img src=x onerror=alert(1)>`

// refusal is why clients reject what they do not like.
const refusal = `no such filter: <script>alert("lua")</script>`

// pageViews are all views of the live page.
var pageViews = []string{
	"#/", "#/clients", "#/clients?state=NACKED&sort=since", "#/client/a-shop-0", "#/keys?sort=state", "#/key/shop", "#/topology", "#/rejections",
	"#/rejections?" + url.Values{"reason": {refusal}, "type": {"CDS"}}.Encode(), "#/resources?search=shop*", "#/config", "#/runbook/XDSRelayNacks",
}

// stage is a tier of real programs with clients, for the live page.
type stage struct {
	t      *testing.T
	ctx    context.Context
	origin *xdstest.ControlPlane
	nodes  map[string]relayNode
	procs  map[string]*process
	file   string // the configuration of node a
	state  int
	keys   []string
	each   int // clients of each key on each node
}

// startStage starts nodes a, b and c, and clients of each key on each.
func startStage(t *testing.T, each int, keys ...string) *stage {
	t.Helper()
	redis := redistest.Start(t, redistest.Config{})
	s := &stage{t: t, ctx: contextOf(t), origin: xdstest.NewControlPlane(t, nil), nodes: map[string]relayNode{}, procs: map[string]*process{}, keys: keys, each: each}
	s.file = filepath.Join(t.TempDir(), "relay.yaml")
	s.configure("log: {level: info}")
	for _, key := range keys {
		s.update(key)
	}
	for _, name := range []string{"a", "b", "c"} {
		n := relayNode{
			program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: s.origin.Addr(), variant: "delta", key: "node.cluster",
			flags: []string{"--name", "relay-" + name, "--redis", redis.URL(), "--peer", freeAddress(t), "-c", s.file},
			env:   []string{"XDSRELAY_TIER_BALANCE_ENABLED=false", "XDSRELAY_TIER_LEASE=20s"},
		}
		s.procs[name] = n.start(s.ctx, t, "node "+name)
		s.nodes[name] = n
	}
	for name := range s.nodes {
		for _, key := range keys {
			for i := range each {
				s.client(name, fmt.Sprintf("%s-%s-%d", name, key, i), key, i, nil)
			}
		}
	}
	return s
}

// client starts a client on a node.
func (s *stage) client(node, name, key string, i int, nack func(*xdstest.Frame) string) {
	variants := xdstest.Variants(xdstest.ClusterType)
	c := xdstest.StartAuto(s.t, xdstest.AutoConfig{Addr: s.nodes[node].listen, Variant: variants[i%len(variants)], Node: xdstest.Node(name, key), Nack: nack})
	c.Subscribe(xdstest.ClusterType)
}

// configure writes the configuration.
func (s *stage) configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(text+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		s.t.Fatal(err)
	}
}

// update makes the origin serve another state of a key.
func (s *stage) update(key string) {
	s.state++
	s.origin.SetSnapshot(s.t, key, strconv.Itoa(s.state), xdstest.Cluster(key, time.Duration(s.state)*time.Second), xdstest.Cluster(key+"-backup", time.Second))
}

// all is how many clients a key has.
func (s *stage) all() int { return s.each * len(s.nodes) }

// TestLivePage: a browser shows a tier as it is: an update on its way to all clients of
// all nodes, who rejects it and why, a configuration that was refused, and a node that
// has died. The page is used with the keyboard and on a phone, is clean for axe in light
// and dark, obeys its policy, rests while nobody sees it, and says so when the node does
// not answer (K20).
func TestLivePage(t *testing.T) {
	s := startStage(t, 8, "shop", "edge")
	s.client("b", hostileName, "edge", 0, nil)
	b := startBrowser(t)
	step(t, "the page shows the tier", func() error {
		return b.do(order{"do": "open", "url": "http://" + s.nodes["a"].admin + "/"},
			sees(fmt.Sprintf("%d clients on 3 nodes", 2*s.all()+1), "h1"), sees("no problems"), sees("live", "#fresh"), sees("relay-c", "main table"),
			order{"do": "hidden", "within": "#nav-rollouts"}) // no key has a rollout policy
	})
	step(t, "an update comes to all clients of its key", func() error {
		s.update("shop")
		n := strconv.Itoa(s.all())
		return b.do(order{"do": "reached", "key": "shop", "reach": n + " / " + n}, sees("p99", ".updates li"))
	})
	step(t, "who rejects one is shown, with the reason", func() error {
		s.client("c", "picky", "shop", 1, func(*xdstest.Frame) string { return refusal })
		if err := b.do(sees("1 client has rejected (NACK) the newest version", ".alert"), view("#/clients?state=NACKED"), sees("picky", "main table"), sees(refusal, "main table")); err != nil {
			return err
		}
		s.update("shop")
		return b.do(view("#/"), order{"do": "reached", "key": "shop", "reach": fmt.Sprintf("%d / %d", s.all(), s.all()+1)},
			view("#/client/picky"), sees(refusal, ".alert"), sees("Rejected", "h1 + *"))
	})
	step(t, "a reason leads to its resources and clients", func() error {
		return b.do(view("#/"), order{"do": "click", "role": "link", "name": "1 client has rejected (NACK) the newest version"}, sees("1 client of", ".head"), sees("shop", "main table"),
			order{"do": "click", "role": "link", "name": refusal}, sees(refusal, ".alert pre"), sees("changed", "[data-key=resources] table"), sees("shop", "[data-key=resources] table"),
			sees("picky", "[data-key=clients] table"), sees("1 to 1 of 1", ".pager"), order{"do": "click", "role": "link", "name": "Runbook: Nacks"}, sees("Diagnosis", "main"), sees("XDSRelayNacks", "h1"))
	})
	step(t, "a key shows its nodes and clients, and what an update changed", func() error {
		s.update("edge")
		n := strconv.Itoa(s.all() + 1)
		return b.do(view("#/"), order{"do": "reached", "key": "edge", "reach": n + " / " + n}, view("#/key/edge"), sees(n+" clients", ".facts"), sees("follower", ".boxes"),
			sees("edge", ".past li"), order{"do": "unfold", "within": ".past"}, sees("connectTimeout", ".past"), sees(fmt.Sprintf(`+ "%ds"`, s.state), ".past ins"),
			order{"do": "click", "name": "Show the resources"}, sees("edge-backup", "[data-key=content]"))
	})
	step(t, "what is in a list twice is shown twice", func() error { return b.do(order{"do": "repeats"}) })
	step(t, "the topology shows owners, followers and clients", func() error {
		return b.do(view("#/topology"), sees("owns", ".boxes"), sees("follows", ".boxes"), sees("relay-c", ".boxes"), sees("clients", ".boxes"))
	})
	step(t, "lists are sorted and filtered by the address", func() error {
		clients := func(node string) order { return sees("relay-"+node, "main tbody tr:first-child") }
		return b.do(view("#/clients"), order{"do": "click", "role": "link", "name": "State", "within": "thead"}, order{"do": "address", "text": "sort=state"}, sees("picky", "main tbody tr:first-child"), sees(fmt.Sprintf("1 to 50 of %d", 2*s.all()+2), ".pager"),
			order{"do": "select", "label": "Node", "value": "relay-b"}, order{"do": "address", "text": "node=relay-b"}, clients("b"), sees("1 to 17 of 17", ".pager"),
			view("#/keys?sort=updates&state=nacked"), sees("shop", "main tbody tr:first-child"), sees("1 to 1 of 1", ".pager"),
			order{"do": "click", "role": "link", "name": "All", "within": ".filters"}, order{"do": "address", "text": "#/keys?sort=updates"}, sees("1 to 2 of 2", ".pager"))
	})
	step(t, "clients are found", func() error {
		return b.do(view("#/clients"), order{"do": "search", "text": "ERROR="}, sees(hostileName, "main table"), sees("1 to 1", ".pager"),
			order{"do": "click", "role": "link", "name": hostileName}, sees(hostileName, "h1"), sees("edge-backup", "main"))
	})
	step(t, "it works with the keyboard", func() error { return b.do(order{"do": "walk"}) })
	step(t, "it fits on a phone", func() error { return b.do(order{"do": "fits", "width": 360, "views": pageViews}) })
	for _, scheme := range []string{"dark", "light"} {
		step(t, "it is clean for axe, "+scheme, func() error {
			return b.do(order{"do": "colours", "scheme": scheme}, order{"do": "accessible", "views": pageViews, "width": 1440}, order{"do": "accessible", "views": pageViews, "width": 390})
		})
	}
	step(t, "a bad configuration is shown, and that it is mended", func() error {
		s.configure("log: {lvl: info}")
		if err := b.do(view("#/config"), sees("Node relay-b rejected its new configuration", ".alert"), sees("lvl", ".alert pre"), sees("new configuration rejected", "main table")); err != nil {
			return err
		}
		s.configure("log: {level: warn}")
		return b.do(sees("active", "main table"))
	})
	step(t, "a hidden page asks for nothing", func() error { return b.do(view("#/"), order{"do": "quiet"}) })
	step(t, "a node that has died is shown", func() error {
		s.procs["b"].kill()
		return b.do(sees("Node relay-b does not answer", ".alert"), sees("silent", "main table"))
	})
	step(t, "a page whose node has died says so, and comes back", func() error {
		s.procs["a"].kill()
		if err := b.do(sees("The node does not answer", "#trouble"), sees("The page has had no data since", "#trouble"), sees("old", "#fresh"), sees("relay-c", "main table")); err != nil {
			return err
		}
		n := s.nodes["a"]
		s.procs["a"] = n.start(s.ctx, t, "node a again")
		return b.do(order{"do": "click", "name": "Try now"}, sees("live", "#fresh"))
	})
	step(t, "a page whose node has died offers the same view of another node", func() error {
		if err := b.do(view("#/keys?sort=state"), sees("shop", "main tbody")); err != nil {
			return err
		}
		s.procs["a"].kill()
		return b.do(sees("This view on another node: relay-c.", "#elsewhere"), order{"do": "follow", "name": "relay-c"}, sees("relay-c", "#title"), order{"do": "address", "text": "#/keys?sort=state"}, sees("shop", "main tbody"))
	})
	step(t, "the page did nothing that it may not", func() error { return b.do(order{"do": "clean"}) })
}

// TestPageWithToken: where the admin port asks for a token, the browser does, and the
// page works with one that may only read.
func TestPageWithToken(t *testing.T) {
	const reading = "reading-0123456789"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	n := relayNode{
		program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: xdstest.NewControlPlane(t, nil).Addr(), variant: "sotw", key: "node.cluster",
		flags: []string{"-c", write("relay.yaml", fmt.Sprintf("admin: {token_file: %s, read_token_file: %s}", write("token", "operator-0123456789"), write("read", reading)))},
	}
	n.start(contextOf(t), t, "the node")
	res, err := http.Get("http://" + n.admin + "/ui/app.js")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", res.Status)
	}
	b := startBrowser(t)
	if err := b.do(order{"do": "open", "url": "http://" + n.admin + "/", "password": reading}, sees("0 clients", "h1"), order{"do": "clean"}); err != nil {
		t.Fatal(err)
	}
}
