package relay_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
	"xdsrelay/relay/xdstest"
)

// TestLiveTier holds what the live page is told by any node, of the whole tier: how far
// an update has come, with those that reject it and those that do not answer, what goes
// in and out, and the last hour (K20).
func TestLiveTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		owner, other := w.roster.owner("red"), w.other("red")
		clients := len(w.clients["red"])
		live := func(node string) (l ops.Live) {
			w.order(node, http.MethodGet, "/api/v1/live", &l)
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time: the next answer is another
			return l
		}
		newest := func(l ops.Live) ops.Update {
			i := slices.IndexFunc(l.Updates, func(u ops.Update) bool { return u.URL == xdstest.ClusterType })
			if i < 0 {
				t.Fatalf("no update in %+v", l)
			}
			return l.Updates[i]
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time: after the clients came
		w.set("red", 2)
		w.converged()
		for _, node := range []string{owner, other} {
			var l ops.Live
			xdstest.Eventually(t, "the ACKs to arrive", func() bool {
				l = live(node)
				return newest(l).Acked == clients && l.Clients.States[ops.Synced] == clients
			})
			if u := newest(l); u.Key != "red" || u.Clients != clients || u.Acked != clients || len(u.Nodes) != 3 || u.Cause != "upstream" {
				t.Errorf("on node %s the update is %+v, expected %d clients", node, u, clients)
			}
			if l.Self != node || len(l.Nodes) != 3 || l.Clients.Clients != clients || l.Clients.States[ops.Synced] != clients || slices.ContainsFunc(l.Warnings, func(w ops.Warning) bool { return w.Level == "error" }) {
				t.Errorf("on node %s: %+v", node, l)
			}
		}
		w.awkward(other, "red")
		xdstest.Eventually(t, "the awkward ones to stand as they do", func() bool {
			l := live(owner)
			return l.Clients.States[ops.Nacked] == 1 && l.Clients.States[ops.Stale] == 1
		})
		w.set("red", 3)
		var u ops.Update
		defer func() {
			if t.Failed() {
				t.Logf("the update is %+v", u)
			}
		}()
		xdstest.Eventually(t, "the update to come to all who take it", func() bool {
			u = newest(live(owner))
			return u.Clients == clients+2 && u.Acked == clients && u.Nacked == 1 && u.Sent+u.Waiting == 1
		})
		l := live(owner)
		if !slices.ContainsFunc(l.Warnings, func(w ops.Warning) bool { return w.Kind == "clients" }) {
			t.Errorf("warnings %+v", l.Warnings)
		}
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		l = live(other)
		if in, out := l.Traffic.StreamsIn, l.Traffic.StreamsOut; in != 1 || out != int64(clients)+2 || l.Traffic.BytesIn == 0 || l.Traffic.BytesOut <= l.Traffic.BytesIn || l.Traffic.Nacks == 0 {
			t.Errorf("traffic %+v", l.Traffic)
		}
		var hour series.Tier
		w.order(other, http.MethodGet, "/api/v1/series", &hour)
		last := len(hour.At) - 1
		if last < 2 || hour.Clients[last] != clients+2 || hour.States["nacked"][last] != 1 || hour.In[last] != 1 || hour.Nodes[last] != 3 {
			t.Errorf("the last hour is %+v", hour)
		}
		if !slices.ContainsFunc(hour.P99, func(p *float64) bool { return p != nil }) {
			t.Error("no time of any update")
		}
		var page ops.Keys
		w.order(other, http.MethodGet, "/api/v1/keys?limit=1&search=RE", &page)
		if len(page.Keys) != 1 || len(page.Keys[0].Nodes) != 3 || page.Next != "" {
			t.Errorf("keys %+v", page)
		}
		w.kill(other)
		xdstest.Eventually(t, "the node to be missing", func() bool {
			return slices.ContainsFunc(live(owner).Nodes, func(n ops.LiveNode) bool { return n.Name == other && n.State == "silent" })
		})
	})
}

// TestLastHourOutlivesNodes: what the last hour was like is the same after a node has
// left: one that drains is copied before, and of one that disappears what was not copied
// is marked, so that no sum shrinks. A node that joins has the whole hour, too.
func TestLastHourOutlivesNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		owner := w.roster.owner("red")
		others := slices.DeleteFunc(slices.Clone(w.names), func(n string) bool { return n == owner })
		hour := func(node string) (s series.Tier) {
			w.order(node, http.MethodGet, "/api/v1/series", &s)
			if len(s.At) != len(s.Clients) || len(s.At) != len(s.Nodes) {
				t.Fatalf("columns of different lengths: %+v", s)
			}
			return s
		}
		same := func(before, after series.Tier, holes int) {
			t.Helper()
			for i, at := range before.At {
				k, found := slices.BinarySearch(after.At, at)
				switch {
				case found && after.Clients[k] != before.Clients[i]:
					t.Errorf("at %d there were %d clients, and then %d", at, before.Clients[i], after.Clients[k])
				case !found && !slices.Contains(after.Incomplete, at):
					t.Errorf("at %d there is nothing any more, and that is not said", at)
				case !found:
					holes--
				}
			}
			if holes < 0 {
				t.Errorf("%d more moments than expected are incomplete: %v", -holes, after.Incomplete)
			}
		}
		time.Sleep(3 * time.Minute) //nolint:forbidigo // virtual time
		before := hour(owner)
		if len(before.At) < 15 || before.Clients[len(before.At)-1] != 12 || len(before.Incomplete) > 1 {
			t.Fatalf("the last hour is %+v", before)
		}
		if code, text := w.order(others[0], http.MethodPost, "/drain", nil); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, text)
		}
		w.nodes[others[0]].ended(t)
		w.roster.drop(others[0])
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		same(before, hour(owner), 0)
		same(before, hour(others[1]), 0)

		time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time
		before = hour(others[1])
		w.kill(others[1])
		w.roster.drop(others[1])
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		after := hour(owner)
		same(before, after, 31)
		if last := len(after.At) - 1; after.Nodes[last] != 1 {
			t.Errorf("the last moment is of %d nodes", after.Nodes[last])
		}
		w.start(others[0])
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		before = hour(owner)
		w.kill(owner)
		w.roster.drop(owner)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		same(before, hour(others[0]), 4)
	})
}

// TestMissingInTheTier: any node shows of the clients of all nodes that they ask for what
// does not exist, whatever their state: in numbers, in lists, and by name (K20).
func TestMissingInTheTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		owner, other := w.roster.owner("red"), w.other("red")
		c := w.client(other, "asks-in-vain", "red", xdstest.Delta)
		c.Subscribe(xdstest.EndpointType, "red-a", "misspelt")
		c.WaitHeld(t, xdstest.EndpointType, "red-a")
		w.poll(other, "polls-in-vain", "red", "", "red-a", "misspelt")
		for _, node := range []string{owner, other} {
			var page ops.Page
			xdstest.Eventually(t, "those that ask in vain", func() bool {
				page = w.fleetOf(node, url.Values{"state": {"missing"}}, 10)
				return slices.Equal(namesOf(page), []string{"asks-in-vain on " + other, "polls-in-vain on " + other}) && page.Clients[0].State == ops.Synced
			})
			for _, c := range page.Clients {
				if c.Missing != 1 || c.Types[0].Missing != 1 || c.Types[0].MissingNames != nil {
					t.Errorf("node %s shows %+v", node, c)
				}
				var found ops.Found
				w.order(node, http.MethodGet, "/api/v1/client?client="+c.Name, &found)
				if len(found.Clients) != 1 || !slices.Equal(found.Clients[0].Types[0].MissingNames, []string{"misspelt"}) {
					t.Errorf("node %s shows %+v", node, found.Clients)
				}
			}
			var l ops.Live
			w.order(node, http.MethodGet, "/api/v1/live", &l)
			i := slices.IndexFunc(l.Clients.Types, func(s ops.TypeSum) bool { return s.URL == xdstest.EndpointType })
			if l.Clients.Missing != 2 || i < 0 || l.Clients.Types[i].Missing != 1 {
				t.Errorf("node %s counts %+v", node, l.Clients)
			}
		}
		w.origin.Set("red", xdstest.Endpoints("misspelt", "127.0.0.1:1"))
		w.origin.Set("red", xdstest.Cluster("misspelt", time.Second))
		xdstest.Eventually(t, "nothing to be missing", func() bool { return len(w.fleetOf(owner, url.Values{"state": {"missing"}}, 10).Clients) == 0 })
	})
}
