package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"xdsrelay/fanout"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// pollClient returns the client with a name.
func (w *world) pollClient(name string) fanout.Client {
	w.t.Helper()
	for _, c := range w.srv.Clients() {
		if c.ID() == name {
			return c
		}
	}
	w.t.Fatalf("no client %q is shown", name)
	return nil
}

// is checks the state of the test client: its state per type, and per resource, as "Cluster=SYNCED
// a=SYNCED b=NOT_SENT".
func (w *world) is(want string) fanout.StreamInfo {
	w.t.Helper()
	c := w.pollClient("test-client")
	var words []string
	info := c.Info()
	for _, t := range info.Types {
		words = append(words, resource.TypeOf(t.TypeURL).ShortName()+"="+string(t.State))
	}
	for r := range c.Resources {
		words = append(words, r.Name+"="+string(r.State))
	}
	if got := strings.Join(words, " "); got != want {
		w.t.Fatalf("the client stands at %q, expected %q", got, want)
	}
	return info
}

// holds formats what a client holds: "2 same, +a ~b -c ?d".
func holds(c fanout.Client) string {
	var words []string
	for _, h := range c.Holdings() {
		words = append(words, fmt.Sprintf("%s %d same", h.Type.ShortName(), h.Same))
		for _, l := range h.Lacks {
			sign := "+"
			switch {
			case l.Maybe:
				sign = "?"
			case l.Resource == nil:
				sign = "-"
			case l.Was:
				sign = "~"
			}
			words = append(words, sign+l.Name+" "+string(l.State))
		}
	}
	return strings.Join(words, ", ")
}

// TestClients: K20: the state of a polling client follows its versions: sent, acknowledged by
// quoting it, and stale after a change of its resources.
func TestClients(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(clusters, cluster("a", 1), cluster("b", 1))
	w.known(endpoints, endpointsOf("a", 1), endpointsOf("z", 1))
	if all := w.srv.Clients(); len(all) != 0 {
		t.Fatalf("%d clients before the first has come", len(all))
	}
	v1 := w.has(w.post(clusters, ask("")), "a", "b")
	i := w.is("Cluster=STALE a=STALE b=STALE")
	if i.Variant != fanout.PollVariant || i.Peer != "127.0.0.1" || i.Key != "test-cluster" || i.Cluster != "test-cluster" || i.Polled.IsZero() || i.Polled.Before(i.Since) {
		t.Errorf("%+v", i)
	}
	if c := i.Types[0]; c.Version != v1 || c.Has != "" || !c.Wildcard || c.Acks != 0 || c.SentAt.IsZero() {
		t.Errorf("%+v", c)
	}
	w.unchanged(w.post(clusters, ask(v1)))
	if c := w.is("Cluster=SYNCED a=SYNCED b=SYNCED").Types[0]; c.Version != v1 || c.Has != v1 || c.Acks != 1 || c.Acked != c.Head {
		t.Errorf("%+v", c)
	}
	e1 := w.has(w.post(endpoints, ask("", "a", "missing")), "a")
	w.unchanged(w.post(endpoints, ask(e1, "a", "missing")))
	w.is("Cluster=SYNCED ClusterLoadAssignment=SYNCED a=SYNCED b=SYNCED a=SYNCED missing=NOT_SENT")

	w.change(eds, nil, endpointsOf("z", 2)) // no client asks for it
	w.is("Cluster=SYNCED ClusterLoadAssignment=SYNCED a=SYNCED b=SYNCED a=SYNCED missing=NOT_SENT")
	changed := time.Now()
	w.serve("v2", cds, cluster("a", 2), cluster("c", 1))
	c := w.is("Cluster=STALE ClusterLoadAssignment=SYNCED a=NOT_SENT c=NOT_SENT a=SYNCED missing=NOT_SENT").Types[0]
	if c.Since.Before(changed.Add(-time.Second)) || c.Acked >= c.Head {
		t.Errorf("%+v", c)
	}
	if got := holds(w.pollClient("test-client")); !strings.Contains(got, "~a NOT_SENT") || !strings.Contains(got, "+c NOT_SENT") || !strings.Contains(got, "-b NOT_SENT") {
		t.Errorf("it holds %s", got)
	}
	v2 := w.has(w.post(clusters, ask(v1)), "a", "c")
	w.is("Cluster=STALE ClusterLoadAssignment=SYNCED a=STALE c=STALE a=SYNCED missing=NOT_SENT")
	w.unchanged(w.post(clusters, ask(v2)))
	w.is("Cluster=SYNCED ClusterLoadAssignment=SYNCED a=SYNCED c=SYNCED a=SYNCED missing=NOT_SENT")
	if got := holds(w.pollClient("test-client")); got != "Cluster 2 same, ClusterLoadAssignment 1 same" {
		t.Errorf("it holds %s", got)
	}
}

// TestClientsOfWhatHasGone: a client is SYNCED for a name whose removal cannot be sent (B32).
func TestClientsOfWhatHasGone(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(endpoints, endpointsOf("a", 1))
	version := w.has(w.post(endpoints, ask("", "a")), "a")
	w.unchanged(w.post(endpoints, ask(version, "a")))
	w.change(eds, []string{"a"})
	for range 2 {
		w.is("ClusterLoadAssignment=SYNCED a=NOT_SENT")
		w.unchanged(w.post(endpoints, ask(version, "a")))
	}
	w.change(eds, nil, endpointsOf("a", 2))
	w.is("ClusterLoadAssignment=STALE a=NOT_SENT")
}

// TestClientsThatReject: a client that does not quote the version of its last answer is only STALE,
// and repeated answers are counted. A client that says that it rejects is NACKED; its reason is
// redacted. Either way it gets the content with each poll (H5, K20).
func TestClientsThatReject(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(clusters, cluster("a", 1))
	v1 := w.has(w.post(clusters, ask("")), "a")
	w.unchanged(w.post(clusters, ask(v1)))
	w.serve("v2", cds, cluster("a", 2))
	var v2 string
	for range 3 {
		v2 = w.has(w.post(clusters, ask(v1)), "a")
	}
	if c := w.is("Cluster=STALE a=STALE").Types[0]; c.UnackedRepeats != 2 || c.Version != v2 || c.Has != v1 || c.LastNack != nil {
		t.Errorf("%+v", c)
	}
	body, err := protojson.Marshal(&discoveryv3.DiscoveryRequest{
		Node: xdstest.Node("test-client", "test-cluster"), VersionInfo: v1,
		ErrorDetail: &statuspb.Status{Code: 3, Message: "not to my taste, password=hunter2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.has(w.post(clusters, string(body)), "a")
	c := w.is("Cluster=NACKED a=NACKED").Types[0]
	if n := c.LastNack; n == nil || n.Version != v2 || n.Code != 3 || c.Nacks != 1 || !strings.Contains(n.Message, "not to my taste") || strings.Contains(n.Message, "hunter2") {
		t.Errorf("%+v %+v", c, n)
	}
	w.serve("v3", cds, cluster("a", 3))
	w.is("Cluster=STALE a=NOT_SENT")
	v3 := w.has(w.post(clusters, ask(v1)), "a")
	w.unchanged(w.post(clusters, ask(v3)))
	if c := w.is("Cluster=SYNCED a=SYNCED").Types[0]; c.LastNack != nil || c.UnackedRepeats != 0 || c.Nacks != 1 {
		t.Errorf("%+v", c)
	}
}

// TestClientsOfManyNames: Envoy polls for each set of endpoints separately, each with its own
// version: that is one client, and its worst state counts. For a full-state type the last poll has
// all names.
func TestClientsOfManyNames(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(endpoints, endpointsOf("a", 1), endpointsOf("b", 1), endpointsOf("c", 1))
	versions := map[string]string{}
	for _, name := range []string{"c", "a", "b"} {
		versions[name] = w.has(w.post(endpoints, ask("", name)), name)
		w.unchanged(w.post(endpoints, ask(versions[name], name)))
	}
	if c := w.is("ClusterLoadAssignment=SYNCED a=SYNCED b=SYNCED c=SYNCED").Types[0]; c.Names != 3 || c.Acks != 3 {
		t.Errorf("%+v", c)
	}
	w.change(eds, nil, endpointsOf("b", 2))
	w.has(w.post(endpoints, ask(versions["b"], "b")), "b")
	w.is("ClusterLoadAssignment=STALE a=SYNCED b=STALE c=SYNCED")
	if got := holds(w.pollClient("test-client")); got != "ClusterLoadAssignment 2 same, ~b STALE" {
		t.Errorf("it holds %s", got)
	}
	w.known(clusters, cluster("x", 1), cluster("y", 1))
	w.has(w.post(clusters, ask("", "x")), "x")
	w.has(w.post(clusters, ask("", "y")), "y")
	w.is("Cluster=STALE ClusterLoadAssignment=STALE y=STALE a=SYNCED b=STALE c=SYNCED")
}

// TestClientsFromElsewhere: a client that quotes an earlier version is SYNCED if that is the
// current one, and what it holds is unknown otherwise; its state is UNKNOWN while nothing can be
// compared (K13).
func TestClientsFromElsewhere(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.unchanged(w.post(clusters, ask("old")))
	w.is("Cluster=UNKNOWN")
	w.fails(w.post(endpoints, ask("", "a")), http.StatusServiceUnavailable)
	w.is("Cluster=UNKNOWN ClusterLoadAssignment=NOT_SENT a=NOT_SENT")
	w.known(clusters, cluster("a", 1))
	v1 := w.has(w.post(clusters, ask("old")), "a")
	w.is("Cluster=STALE ClusterLoadAssignment=NOT_SENT a=STALE a=NOT_SENT")
	if got := holds(w.pollClient("test-client")); !strings.HasPrefix(got, "Cluster 0 same, ?a STALE") {
		t.Errorf("it holds %s", got)
	}
	body := strings.ReplaceAll(ask(v1), "test-client", "mover")
	w.unchanged(w.post(clusters, body))
	if c := w.pollClient("mover").Info().Types[0]; c.State != fanout.Synced || c.Version != v1 || c.Acks != 0 {
		t.Errorf("%+v", c)
	}
	long := strings.Repeat("x", 1<<20)
	w.has(w.post(clusters, ask(long)), "a")
	if c := w.is("Cluster=STALE ClusterLoadAssignment=NOT_SENT a=STALE a=NOT_SENT").Types[0]; len(c.Has) > 2*longestVersion {
		t.Errorf("%d bytes of a version are kept", len(c.Has))
	}
}

// TestClientsAreForgotten: a client that stops polling is shown for the configured time, or for
// three of its own pauses; one that waits in a poll is shown.
func TestClientsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSilentWorld(t, hold(5*time.Minute), func(c *Config) { c.Remember = time.Minute })
		w.known(clusters, cluster("a", 1))
		version := w.version(t, clusters)
		shown := func(want int) {
			t.Helper()
			if got := len(w.srv.Clients()); got != want {
				t.Fatalf("%d clients are shown, expected %d", got, want)
			}
		}
		waits, err := http.NewRequestWithContext(t.Context(), http.MethodPost, clusters, strings.NewReader(ask(version)))
		if err != nil {
			t.Fatal(err)
		}
		go w.srv.serve(httptest.NewRecorder(), waits, w.srv.types[clusters])
		time.Sleep(4 * time.Minute) //nolint:forbidigo // virtual time
		shown(1)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time; the hold is over since one minute
		shown(1)
		w.version(t, clusters)        // a pause of one minute
		time.Sleep(150 * time.Second) //nolint:forbidigo // virtual time
		shown(1)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		shown(0)
		w.version(t, clusters)       // again
		time.Sleep(61 * time.Second) //nolint:forbidigo // virtual time
		shown(0)
		if w.srv.registry.bytes != 0 || len(w.srv.registry.byID) != 0 {
			t.Errorf("%d bytes and %d clients are left", w.srv.registry.bytes, len(w.srv.registry.byID))
		}
	})
}

// TestClientsAreBounded: clients that use a new name, or ask for new names, with each poll do not
// grow the memory of the node, and the client that polled last is shown.
func TestClientsAreBounded(t *testing.T) {
	w := newWorld(t, hold(-1), func(c *Config) { c.RememberBytes = 64 << 10 })
	w.known(endpoints, endpointsOf("a", 1))
	check := func() {
		t.Helper()
		r := w.srv.registry
		r.mu.Lock()
		defer r.mu.Unlock()
		sum := int64(0)
		for _, p := range r.byID {
			if sum += p.bytes; p.bytes > r.most/ownShare || p.recent.Len() != len(p.states) || len(p.states) == 0 {
				t.Fatalf("a client with %d bytes, %d and %d visits", p.bytes, p.recent.Len(), len(p.states))
			}
		}
		if sum != r.bytes || r.bytes > r.most {
			t.Fatalf("%d bytes, counted as %d, at most %d", sum, r.bytes, r.most)
		}
	}
	for i := range 200 {
		w.has(w.post(endpoints, ask("", "a", fmt.Sprintf("%d-%s", i, strings.Repeat("x", 300)))), "a")
		check()
	}
	for i := range 200 {
		w.has(w.post(endpoints, strings.ReplaceAll(ask("", "a"), "test-client", fmt.Sprintf("client-%d", i))), "a")
		check()
	}
	w.pollClient("client-199")
	if n := len(w.srv.Clients()); n < 10 || n > 100 {
		t.Errorf("%d clients are shown", n)
	}
	w.has(w.post(endpoints, ask("", "a", strings.Repeat("y", 32<<10))), "a") // over the bound by itself
	check()
}

// TestUpdatesReachClients: the progress of an update includes polling clients.
func TestUpdatesReachClients(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(clusters, cluster("a", 1))
	w.known(endpoints, endpointsOf("a", 1))
	v1 := w.has(w.post(clusters, ask("")), "a")
	w.unchanged(w.post(clusters, ask(v1)))
	w.has(w.post(endpoints, ask("", "b", "a")), "a")
	w.serve("v2", cds, cluster("a", 2))
	table := w.cache.Find("test-cluster", resource.TypeOf(cds))
	reach := func() fanout.State {
		u, _ := table.Latest()
		state, _, ok := w.pollClient("test-client").Reach(table, u)
		if !ok {
			return "none"
		}
		return state
	}
	if got := reach(); got != fanout.NotSent {
		t.Errorf("before the poll: %s", got)
	}
	v2 := w.has(w.post(clusters, ask(v1)), "a")
	if got := reach(); got != fanout.Stale {
		t.Errorf("told: %s", got)
	}
	w.unchanged(w.post(clusters, ask(v2)))
	if got := reach(); got != fanout.Synced {
		t.Errorf("acknowledged: %s", got)
	}
	table = w.cache.Find("test-cluster", resource.TypeOf(eds))
	w.change(eds, nil, endpointsOf("other", 2))
	if got := reach(); got != "none" {
		t.Errorf("an update that is not for it: %s", got)
	}
}

// TestClientsOfKeysThatAreGivenUp: a client of a key that the node has dropped is UNKNOWN until
// there is content to compare with again.
func TestClientsOfKeysThatAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSilentWorld(t, hold(-1), func(c *Config) { c.Remember = time.Hour })
		w.known(clusters, cluster("a", 1))
		version := w.version(t, clusters)
		w.poll(t, t.Context(), clusters, version)
		w.is("Cluster=SYNCED a=SYNCED")
		time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time; the key is idle
		w.is("Cluster=SYNCED a=SYNCED")
		w.cache.DropIdle()
		w.is("Cluster=UNKNOWN")
		w.feed = nil
		w.poll(t, t.Context(), clusters, version)
		w.is("Cluster=UNKNOWN")
		w.known(clusters, cluster("a", 1))
		w.is("Cluster=SYNCED a=SYNCED")
		w.serve("v2", cds, cluster("a", 2))
		w.is("Cluster=UNKNOWN a=NOT_SENT")
		w.poll(t, t.Context(), clusters, version)
		w.is("Cluster=STALE a=STALE")
	})
}

// TestClientsOfIdentities: clients with different identities or hosts are different clients, even
// with the same node id.
func TestClientsOfIdentities(t *testing.T) {
	w := newSilentWorld(t)
	r := w.srv.registry
	at := time.Now()
	for range 2 {
		for _, by := range []clientID{{id: "a", key: "k"}, {id: "a", key: "k", identity: "spiffe://x/y"}, {id: "a", key: "k", host: "h"}, {id: "a", key: "l"}} {
			r.begin(&request{clientID: by}, resource.TypeOf(cds), at)
		}
	}
	if got := len(w.srv.Clients()); got != 4 {
		t.Errorf("%d clients, expected 4", got)
	}
}

// TestClientsThatWentElsewhere: a node no longer shows what a client has polled from another node
// more recently; it still shows what the client polls only here.
func TestClientsThatWentElsewhere(t *testing.T) {
	here, there := newSilentWorld(t).srv.registry, newSilentWorld(t).srv.registry
	now := time.Unix(1000, 0)
	polls := func(r *pollRegistry, by clientID, url string, names ...string) *pollState {
		q := &request{clientID: by, names: names, wildcard: len(names) == 0}
		v := r.begin(q, resource.TypeOf(url), now)
		r.finish(v, nil, found{unsure: true}, now)
		return v
	}
	a, b := clientID{id: "a", key: "k", host: "h"}, clientID{id: "a", key: "k", host: "h", identity: "spiffe://x/y"}
	polls(here, a, cds)
	polls(here, a, eds, "x")
	polls(here, a, eds, "y")
	polls(here, b, cds)
	polls(there, clientID{id: "c", key: "k", host: "h"}, cds)
	now = now.Add(5 * time.Second)
	polls(there, a, cds)
	polls(there, a, eds, "x")
	polls(here, b, eds, "y")
	recent := there.recentPolls(time.Minute, now)
	if len(recent) != 3 {
		t.Errorf("told are %+v", recent)
	}
	now = now.Add(time.Second)
	here.polledElsewhere(there.recentPolls(time.Minute, now), now)
	there.polledElsewhere(here.recentPolls(time.Minute, now), now)
	kinds := func(r *pollRegistry) (n int) {
		for _, p := range r.byID {
			n += len(p.states)
		}
		return n
	}
	if len(here.byID) != 2 || kinds(here) != 3 || here.byID[a] == nil || len(here.byID[a].states) != 1 {
		t.Errorf("here are %d clients with %d kinds of polls", len(here.byID), kinds(here))
	}
	if len(there.byID) != 2 || kinds(there) != 3 {
		t.Errorf("there are %d clients with %d kinds of polls", len(there.byID), kinds(there))
	}
	if got := there.recentPolls(500*time.Millisecond, now); len(got) != 0 {
		t.Errorf("told of long ago: %+v", got)
	}
	here.begin(&request{clientID: a, wildcard: true}, resource.TypeOf(cds), now) // in progress
	here.polledElsewhere([]RecentPoll{{Mark: markOf(a, subject{url: cds}), Ago: 0}}, now.Add(time.Minute))
	if len(here.byID[a].states) != 2 {
		t.Error("a poll that is being answered was forgotten")
	}
}
