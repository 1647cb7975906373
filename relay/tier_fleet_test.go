package relay_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// fleetOf are the clients of a tier as a node tells of them, in pages of a size.
func (w *tierWorld) fleetOf(node string, query url.Values, size int) (all ops.Page) {
	w.t.Helper()
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", fmt.Sprint(size))
	for {
		var page ops.Page
		if code, text := w.order(node, http.MethodGet, "/api/v1/clients?"+query.Encode(), &page); code != http.StatusOK {
			w.t.Fatalf("%d %s", code, text)
		}
		if len(page.Clients) > size {
			w.t.Errorf("a page of %d clients, at most %d were asked for", len(page.Clients), size)
		}
		all.Clients, all.Silent = append(all.Clients, page.Clients...), page.Silent
		if page.Next == "" {
			return all
		}
		query.Set("page", page.Next)
	}
}

// names are the clients, in order, with the node that each is on.
func namesOf(page ops.Page) (names []string) {
	for _, c := range page.Clients {
		names = append(names, c.Name+" on "+c.Node)
	}
	return names
}

// awkward adds two clients of a key to a node: one that rejects everything, and one
// that answers nothing.
func (w *tierWorld) awkward(node, key string) (nacking, mute *xdstest.Auto) {
	start := func(id string, change func(*xdstest.AutoConfig)) *xdstest.Auto {
		cfg := xdstest.AutoConfig{
			Addr: w.nodes[node].Addr(), Variant: xdstest.Delta, Node: xdstest.Node(id, key), DialOptions: []grpc.DialOption{w.network.Option()},
		}
		change(&cfg)
		c := xdstest.StartAuto(w.t, cfg)
		c.Subscribe(xdstest.ClusterType)
		return c
	}
	nacking = start("x-nacking", func(c *xdstest.AutoConfig) { c.Nack = func(*xdstest.Frame) string { return "not to my taste" } })
	mute = start("x-mute", func(c *xdstest.AutoConfig) {
		c.BeforeAck = func(ctx context.Context, _ *xdstest.Frame) { <-ctx.Done() }
	})
	return nacking, mute
}

// TestFleet: every node tells the same of all clients of the tier, page by page: how
// each stands, and what it was told, which at rest is what the client itself holds.
// Who rejects, and who does not answer, is found by that (K20).
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red", "blue")
		w.populate()
		w.converged()
		var want []string
		byName := map[string]*xdstest.Auto{}
		for _, key := range w.keys {
			for i, c := range w.clients[key] {
				node := w.names[i/len(everyVariant)]
				name := fmt.Sprintf("%s-%s-%d", node, key, i%len(everyVariant))
				want, byName[name] = append(want, name+" on "+node), c
			}
		}
		slices.Sort(want)
		xdstest.Eventually(t, "all to be synced", func() bool {
			all := w.fleetOf("a", nil, 1000)
			return !slices.ContainsFunc(all.Clients, func(c ops.Client) bool { return c.State != ops.Synced })
		})
		for _, node := range w.names {
			for _, size := range []int{1, 7, 1000} {
				if got := namesOf(w.fleetOf(node, nil, size)); !slices.Equal(got, want) {
					t.Errorf("node %s, pages of %d: %q, expected %q", node, size, got, want)
				}
			}
		}
		for name, c := range byName {
			w.holds(c, name)
		}
		w.awkward("b", "red")
		xdstest.Eventually(t, "those that are not synced", func() bool {
			return slices.Equal(namesOf(w.fleetOf("c", url.Values{"state": {"nacked,stale"}}, 10)), []string{"x-mute on b", "x-nacking on b"})
		})
		xdstest.Eventually(t, "the rejection", func() bool { // until it comes that client is stale, too
			return len(w.fleetOf("c", url.Values{"state": {"nacked"}}, 10).Clients) > 0
		})
		nacked := w.fleetOf("a", url.Values{"state": {"NACKED"}, "type": {"CDS"}, "key": {"red"}}, 10)
		if len(nacked.Clients) != 1 || nacked.Clients[0].Types[0].Nack.Message != "not to my taste" {
			t.Errorf("%+v", nacked.Clients)
		}
		if none := w.fleetOf("a", url.Values{"state": {"nacked"}, "type": {"lds"}}, 10); len(none.Clients) > 0 {
			t.Errorf("%+v", none.Clients)
		}
		if got := namesOf(w.fleetOf("a", url.Values{"node": {"b"}, "prefix": {"x-"}}, 10)); len(got) != 2 {
			t.Errorf("on node b: %q", got)
		}
		var sum ops.Summary
		w.order("c", http.MethodGet, "/api/v1/summary", &sum)
		if sum.Clients != len(want)+2 || sum.States[ops.Synced] != len(want) || sum.States[ops.Nacked] != 1 || sum.States[ops.Stale] != 1 || len(sum.Nodes) != 3 {
			t.Errorf("%+v", sum)
		}
	})
}

// holds compares what a node tells of a client with what the client holds.
func (w *tierWorld) holds(c *xdstest.Auto, name string) {
	w.t.Helper()
	var found ops.Found
	w.order("b", http.MethodGet, "/api/v1/client?resources=100&client="+name, &found)
	if len(found.Clients) != 1 {
		w.t.Fatalf("%s: %+v", name, found)
	}
	for _, t := range found.Clients[0].Types {
		held, told := c.Held(t.URL), map[string]string{}
		for _, r := range t.Resources {
			if r.Exists {
				told[r.Name] = r.Version
			}
			if r.Exists && r.State != ops.Synced {
				w.t.Errorf("%s: %s is %s", name, r.Name, r.State)
			}
		}
		for n, r := range held {
			version := r.Version
			if slices.Contains(found.Clients[0].Variants, "sotw") {
				version = c.Version(t.URL)
			}
			if told[n] != version {
				w.t.Errorf("%s has %s of %s at %q, and is said to have %q", name, n, t.Name, version, told[n])
			}
		}
		if len(held) != len(told) {
			w.t.Errorf("%s holds %d of %s, and is said to hold %d", name, len(held), t.Name, len(told))
		}
	}
}

// TestFleetWithSilentNodes: who does not answer is named with every page, with the
// number of those of whom nothing is known, and costs the time of one question however
// many pages there are.
func TestFleetWithSilentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		w.roster.change("a", func(m *shard.Member) { m.Clients = 4 }) // as it last said
		w.kill("a")
		w.roster.change("a", func(m *shard.Member) { m.Draining = false })
		before := time.Now()
		got := w.fleetOf("b", nil, 1)
		if took := time.Since(before); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(got.Clients) != 8 || len(got.Silent) != 1 || got.Silent[0].Node != "a" || got.Silent[0].Error == "" || got.Silent[0].Clients != 4 {
			t.Errorf("%d clients, silent: %+v", len(got.Clients), got.Silent)
		}
		var sum ops.Summary
		w.order("b", http.MethodGet, "/api/v1/summary", &sum)
		if sum.Clients != 8 || sum.Unknown != 4 {
			t.Errorf("%+v", sum)
		}
	})
}

// TestFind: a client is found by its name, by a beginning that is nobody else's, and
// otherwise those are told that could be meant.
func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		for i, id := range []string{"shop-1", "shop-2", "shop-22", "till-1"} {
			w.client(w.names[i%2], id, "red", xdstest.Delta).Subscribe(xdstest.ClusterType)
		}
		xdstest.Eventually(t, "four clients", func() bool { return len(w.fleetOf("a", nil, 10).Clients) == 4 })
		for _, tc := range []struct{ asked, clients, names, near string }{
			{"shop-2", "shop-2", "", ""},
			{"till", "till-1", "", ""},
			{"shop", "", "shop-1 shop-2 shop-22", ""},
			{"shpo-1", "", "", "shop-1"},
			{"hop-22", "", "", "shop-22"},
			{"nothing of that kind", "", "", ""},
		} {
			var found ops.Found
			code, _ := w.order("a", http.MethodGet, "/api/v1/client?client="+url.QueryEscape(tc.asked), &found)
			var clients []string
			for _, c := range found.Clients {
				clients = append(clients, c.Name)
			}
			if strings.Join(clients, " ") != tc.clients || strings.Join(found.Names, " ") != tc.names || !strings.HasPrefix(strings.Join(found.Similar, " "), tc.near) || (code == http.StatusOK) != (tc.clients != "") {
				t.Errorf("%q: %d %+v", tc.asked, code, found)
			}
		}
	})
}

// TestDiff: what a client holds against what there is: nothing where it is synced, and
// otherwise just the names that it holds in an older version, does not hold, or holds
// although they are gone, with what became of that on the way.
func TestDiff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		var busy atomic.Bool // it answers nothing any more
		start := func(id string, cfg xdstest.AutoConfig) *xdstest.Auto {
			cfg.Addr, cfg.Variant, cfg.Node, cfg.DialOptions = w.nodes["b"].Addr(), xdstest.Delta, xdstest.Node(id, "red"), []grpc.DialOption{w.network.Option()}
			c := xdstest.StartAuto(t, cfg)
			c.Subscribe(xdstest.ClusterType)
			c.WaitHeld(t, xdstest.ClusterType, "red-a", "red-b")
			return c
		}
		good := start("good", xdstest.AutoConfig{})
		start("mute", xdstest.AutoConfig{BeforeAck: func(ctx context.Context, _ *xdstest.Frame) {
			if busy.Load() {
				<-ctx.Done()
			}
		}})
		start("picky", xdstest.AutoConfig{Nack: func(*xdstest.Frame) string {
			if busy.Load() {
				return "no more"
			}
			return ""
		}})
		differs := func(id string) []string {
			var d ops.Diff
			if code, text := w.order("a", http.MethodGet, "/api/v1/diff?client="+id, &d); code != http.StatusOK || len(d.Diffs) != 1 || len(d.Diffs[0].Types) != 1 {
				t.Fatalf("%d %s", code, text)
			}
			one := d.Diffs[0]
			var lines []string
			for _, c := range one.Types[0].Differences {
				lines = append(lines, fmt.Sprintf("%s %s %s", c.Change, c.Name, c.Sent))
			}
			if one.Differs != (len(lines) > 0) || len(one.Notes) > 0 {
				t.Errorf("%s: %+v", id, one)
			}
			return append(lines, fmt.Sprintf("%d same", one.Types[0].Same))
		}
		expect := func(id string, want ...string) {
			t.Helper()
			xdstest.Eventually(t, fmt.Sprintf("the differences of %s to be %q", id, want), func() bool { return slices.Equal(differs(id), want) })
		}
		for _, id := range []string{"good", "mute", "picky"} {
			expect(id, "2 same")
		}
		busy.Store(true)
		w.set("red", 2) // a is another, c is new
		w.origin.Remove("red", xdstest.ClusterType, "red-b")
		good.WaitHeld(t, xdstest.ClusterType, "red-a", "red-c")
		expect("good", "2 same")
		mute := differs("mute")
		if fmt.Sprint(mute) != "[changed red-a STALE removed red-b NOT_SENT added red-c STALE 0 same]" && fmt.Sprint(mute) != "[changed red-a STALE removed red-b STALE added red-c STALE 0 same]" {
			t.Errorf("mute: %q", mute)
		}
		expect("picky", "changed red-a NACKED", "removed red-b NACKED", "added red-c NACKED", "0 same")
		var none ops.Diff
		if code, _ := w.order("a", http.MethodGet, "/api/v1/diff?client=godo", &none); code != http.StatusNotFound || !slices.Contains(none.Similar, "good") {
			t.Errorf("a name that nobody has: %d %+v", code, none)
		}
	})
}

// TestHistoryOfTier: each node remembers what became of a key, from whom, and with the
// same digest (K11); what the origin takes back has the digest that it had before.
func TestHistoryOfTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		w.populate()
		w.converged()
		for _, v := range []int{2, 3} {
			w.set("red", v)
			w.converged()
		}
		var h ops.History
		w.order("b", http.MethodGet, "/api/v1/history?key=red", &h)
		if h.Owner != w.roster.owner("red") || len(h.Nodes) != 2 {
			t.Fatalf("%+v", h)
		}
		var digests []string
		for _, n := range h.Nodes {
			cause := cache.CauseOwner
			if n.Node == h.Owner {
				cause = cache.CauseOrigin
			}
			i := slices.IndexFunc(n.Types, func(t ops.TypeHistory) bool { return t.Name == "CDS" })
			versions := n.Types[i].Versions
			if len(versions) < 3 || versions[0].Cause != cause || versions[0].Removed != 1 || versions[0].Resources != 2 || versions[0].At.IsZero() {
				t.Errorf("node %s: %+v", n.Node, versions)
			}
			if last := versions[0]; n.Node == h.Owner && (last.Changed != 1 || versions[1].Added != 1) { // others are told of removals last
				t.Errorf("the owner: %+v", versions)
			}
			digests = append(digests, versions[0].Digest)
		}
		if digests[0] != digests[1] {
			t.Errorf("digests differ: %q", digests)
		}
		if code, text := w.order("b", http.MethodGet, "/api/v1/history?key=nobody", nil); code != http.StatusNotFound || !strings.Contains(text, "no node has the key") {
			t.Errorf("%d %s", code, text)
		}
	})
}

// TestDump: the resources of a key are shown from any node, in parts, without what is
// secret in them.
func TestDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		w.origin.Update("red", func(c *xdstest.Change) {
			c.Set(xdstest.Secret("tls", "the certificate", "the private key"))
			for i := range 600 {
				c.Set(xdstest.Cluster(fmt.Sprintf("c-%03d-%s", i, strings.Repeat("x", 1000)), time.Second))
			}
		})
		w.populate()
		w.converged()
		w.clients["red"][0].Subscribe(xdstest.SecretType, "tls")
		w.clients["red"][0].WaitHeld(t, xdstest.SecretType, "tls")
		for _, node := range w.names {
			query, parts := url.Values{"key": {"red"}}, 0
			got := map[string]bool{}
			for {
				var d ops.Dump
				code, text := w.order(node, http.MethodGet, "/api/v1/dump?"+query.Encode(), &d)
				if code != http.StatusOK || d.Node != w.roster.owner("red") {
					t.Fatalf("%d %.200s", code, text)
				}
				if strings.Contains(text, "private key") || strings.Contains(text, "dGhlIHByaXZhdGUga2V5") {
					t.Errorf("a private key is shown:\n%.2000s", text)
				}
				for _, r := range d.Resources {
					if got[r.Name+r.URL] || len(r.Resource) == 0 {
						t.Errorf("%.20s comes twice, or is not shown", r.Name)
					}
					got[r.Name+r.URL] = true
				}
				if parts++; d.Next == "" {
					break
				}
				query.Set("page", d.Next)
			}
			if len(got) != 606 || parts < 2 {
				t.Errorf("%d resources in %d parts", len(got), parts)
			}
		}
	})
}

// clientStatus is what the client status service tells on a node: the clients of the key
// red, and the nodes that did not answer.
func (w *tierWorld) clientStatus(node, query string) (clients, silent []string) {
	w.t.Helper()
	_, text := w.order(node, http.MethodPost, "/v3/discovery:client_status"+query, nil)
	var rsp statusv3.ClientStatusResponse
	if err := protojson.Unmarshal([]byte(text), &rsp); err != nil {
		w.t.Fatalf("%v in %s", err, text)
	}
	for _, c := range rsp.GetConfig() {
		switch g := c.GetGenericXdsConfigs(); {
		case len(g) == 1 && g[0].GetTypeUrl() == "" && g[0].GetConfigStatus() == statusv3.ConfigStatus_UNKNOWN:
			silent = append(silent, c.GetNode().GetId()+": "+g[0].GetErrorState().GetDetails())
		case strings.Contains(c.GetNode().GetId(), "-red-"):
			clients = append(clients, c.GetNode().GetId())
		}
	}
	slices.Sort(clients)
	return slices.Compact(clients), silent
}

// TestClientStatusOfTier: K20: the client status service tells of the clients of all
// nodes, whichever is asked, or of those of one; matchers are applied on each. A node
// that does not answer is there with its name and the status UNKNOWN.
func TestClientStatusOfTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		ask := func(query string) (clients, silent []string) { return w.clientStatus("b", query) }
		if clients, silent := ask(""); len(clients) != 12 || len(silent) > 0 {
			t.Errorf("%q, silent: %q", clients, silent)
		}
		for _, node := range w.names {
			if clients, silent := ask("?node=" + node); len(clients) != 4 || !strings.HasPrefix(clients[0], node) || len(silent) > 0 {
				t.Errorf("of node %s: %q, silent: %q", node, clients, silent)
			}
		}
		if code, text := w.order("b", http.MethodPost, "/v3/discovery:client_status?node=z", nil); code != http.StatusBadRequest || !strings.Contains(text, "no node of the tier") {
			t.Errorf("%d %s", code, text)
		}
		w.kill("c")
		w.roster.change("c", func(m *shard.Member) { m.Draining = false })
		if clients, silent := ask(""); len(clients) != 8 || len(silent) != 1 || !strings.HasPrefix(silent[0], "c: a node of the tier did not answer") {
			t.Errorf("%q, silent: %q", clients, silent)
		}
	})
}
