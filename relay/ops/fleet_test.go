package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
)

// fleetClient is a client whose state is made up.
type fleetClient struct {
	id, key, peer string
	info          fanout.StreamInfo
}

func (c *fleetClient) Key() string                                                        { return c.key }
func (c *fleetClient) ID() string                                                         { return c.id }
func (c *fleetClient) Peer() string                                                       { return c.peer }
func (c *fleetClient) Node() *corev3.Node                                                 { return &corev3.Node{Id: c.id} }
func (c *fleetClient) Info() fanout.StreamInfo                                            { return c.info }
func (c *fleetClient) Resources(func(fanout.ResourceStatus) bool)                         {}
func (c *fleetClient) Holdings() []fanout.TypeDiff                                        { return nil }
func (c *fleetClient) Find(func(*cache.Table) []string, func(*fanout.FoundResource) bool) {}
func (c *fleetClient) Reach(*cache.Table, cache.UpdateRef) (fanout.State, time.Time, bool) {
	return "", time.Time{}, false
}

// fleet has this many clients on three nodes: of each hundred, two reject, three are late, and one asks for
// what does not exist.
type fleet struct {
	nodes   map[string][]fanout.Client
	answers map[string]map[string]func(context.Context, url.Values) (any, error)
	// bytes counts what the nodes send each other.
	bytes atomic.Int64
}

var fleetTypes = []string{resource.ClusterURL, resource.EndpointURL, resource.ListenerURL, resource.RouteURL, resource.SecretURL}

func newFleet(size int, now time.Time) *fleet {
	f := &fleet{nodes: make(map[string][]fanout.Client), answers: make(map[string]map[string]func(context.Context, url.Values) (any, error))}
	for i := range size {
		c := &fleetClient{id: fmt.Sprintf("sidecar~10.1.%d.%d~shop-%05d.prod", i/250, i%250, i), key: fmt.Sprintf("shop/%d", i%50), peer: fmt.Sprintf("10.1.%d.%d:4711", i/250, i%250)}
		since := now.Add(-time.Duration(i) * time.Second)
		c.info = fanout.StreamInfo{Peer: c.peer, NodeID: c.id, Cluster: "shop", Key: c.key, Rule: "default", Variant: "delta", Service: "ads", Since: now.Add(-26 * time.Hour)}
		for _, url := range fleetTypes {
			t := fanout.TypeInfo{
				TypeURL: url, State: fanout.Synced, Since: since, Wildcard: url == resource.ClusterURL, Names: 3, Sent: 9, Acked: 9, Head: 9,
				Version: "0123456789abcdef0123456789abcdef", Nonce: "9", SentAt: since, Acks: 9,
			}
			switch {
			case i%50 == 7 && url == resource.ListenerURL:
				t.State, t.Acked, t.Nacks, t.Waiting = fanout.Nacked, 8, 1, "held after NACK"
				t.LastNack = &fanout.Nack{At: since, Code: 13, Message: "no such filter", Version: t.Version}
			case i%100 < 3:
				t.State, t.Acked, t.Waiting = fanout.Stale, 8, "awaiting ACK"
			case i%100 == 50 && url == resource.SecretURL:
				t.Missing = 1
			}
			c.info.Types = append(c.info.Types, t)
		}
		node := string(rune('a' + i%3))
		f.nodes[node] = append(f.nodes[node], c)
	}
	return f
}

// model is how the first node sees the tier.
func (f *fleet) model() *Model {
	member := func(name string) shard.Member { return shard.Member{Name: name} }
	all := &Nodes{
		Self:    func() shard.Member { return member("a") },
		Members: func() []shard.Member { return []shard.Member{member("a"), member("b"), member("c")} },
		Owner:   func(string) string { return "a" },
		Ask: func(ctx context.Context, m shard.Member, path string) ([]byte, error) {
			at, err := url.Parse(path)
			if err != nil {
				return nil, err
			}
			answer, err := f.answers[m.Name][at.Path](ctx, at.Query())
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(answer)
			f.bytes.Add(int64(len(text)))
			return text, err
		},
	}
	var first *Model
	for _, node := range []string{"c", "b", "a"} {
		f.answers[node] = make(map[string]func(context.Context, url.Values) (any, error))
		local := Local{
			Node: node, Clients: func() []fanout.Client { return append([]fanout.Client(nil), f.nodes[node]...) }, Groups: func() []*cache.Group { return nil },
			GroupInfos: func() []cache.GroupInfo { return nil }, Places: func() map[string]tier.Place { return nil },
		}
		first = New(local, all, func(path string, h func(context.Context, url.Values) (any, error), _ ...string) {
			f.answers[node][path] = h
		})
	}
	return first
}

// query asks the first node.
func (f *fleet) query(tb testing.TB, model *Model, query string) Page {
	tb.Helper()
	v, err := url.ParseQuery(query)
	if err != nil {
		tb.Fatal(err)
	}
	q, err := ParseQuery(v)
	if err != nil {
		tb.Fatal(err)
	}
	page, err := model.Clients(tb.Context(), q)
	if err != nil {
		tb.Fatal(err)
	}
	return page
}

// TestManyClients: the first page of 10,000 clients has the numbers of all, and the worst of them. Its cost is that of
// looking at each client once: what nodes send, and what is allocated, is for one page.
func TestManyClients(t *testing.T) {
	f := newFleet(10_000, time.Now())
	model := f.model()
	var page Page
	allocs := testing.AllocsPerRun(1, func() { page = f.query(t, model, "sort=state&limit=50") })
	sum := page.Summary
	if sum.Clients != 10_000 || sum.States[Synced] != 9500 || sum.States[Stale] != 300 || sum.States[Nacked] != 200 || sum.Missing != 100 {
		t.Errorf("the numbers are %+v", sum)
	}
	if r := sum.Rejections; len(r) != 1 || r[0].Clients != 200 || r[0].Key != "shop/7" || r[0].Version == "" {
		t.Errorf("the rejections are %+v", r)
	}
	if len(page.Clients) != 50 || slices.ContainsFunc(page.Clients, func(c Client) bool { return c.State != Nacked }) || page.Next == "" {
		t.Errorf("%d clients on the page", len(page.Clients))
	}
	if sent := f.bytes.Load() / 2; sent > 500_000 {
		t.Errorf("the nodes sent %d bytes", sent)
	}
	if allocs > 90_000 {
		t.Errorf("%.0f allocations, expected 9 for each client at most", allocs)
	}
	f.bytes.Store(0)
	if page = f.query(t, model, "brief=true&limit=5000"); len(page.Clients) != 5000 || len(page.Clients[0].Types) > 0 {
		t.Errorf("%d clients in short", len(page.Clients))
	}
	if sent := f.bytes.Load(); sent > 500*10_000 {
		t.Errorf("the nodes sent %d bytes of clients in short", sent)
	}
}

// TestSortedPages: pages in an order have all clients once, in that order, and the first one has their numbers.
func TestSortedPages(t *testing.T) {
	model := newFleet(300, time.Now()).model()
	pages := func(sort Sort, limit string) (all []Client) {
		v := url.Values{"sort": {string(sort)}, "limit": {limit}}
		for first := true; ; first = false {
			q, err := ParseQuery(v)
			if err != nil {
				t.Fatal(err)
			}
			page, err := model.Clients(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if (page.Summary != nil) != first || first && page.Summary.Clients != 300 {
				t.Fatalf("the summary is %+v", page.Summary)
			}
			all = append(all, page.Clients...)
			if page.Next == "" {
				return all
			}
			v.Set("page", page.Next)
		}
	}
	names := func(all []Client) (names []string) {
		for i := range all {
			names = append(names, all[i].Name)
		}
		return names
	}
	for _, sort := range Sorts() {
		whole := pages(sort, "5000")
		if got := names(pages(sort, "7")); len(got) != 300 || !slices.Equal(got, names(whole)) {
			t.Errorf("%s: %d clients on small pages, in another order than on one", sort, len(got))
		}
		switch first, last := whole[0], whole[299]; {
		case sort == ByState && (first.State != Nacked || last.State != Synced || last.Missing > 0):
			t.Errorf("the worst is %s, the best %s", first.State, last.State)
		case sort == BySince && (first.State != Stale && first.State != Nacked || whole[1].Since.Before(first.Since)):
			t.Errorf("the first out of sync is %s since %s, the next since %s", first.State, first.Since, whole[1].Since)
		}
	}
	for _, v := range []url.Values{{"sort": {"age"}}, {"brief": {"perhaps"}}, {"sort": {"state"}, "page": {"e30"}}, {"page": {"eyJyIjp7fX0"}}} {
		if q, err := ParseQuery(v); err == nil {
			t.Errorf("%v was read as %+v", v, q)
		}
	}
}

// BenchmarkFleet is what a page of 10,000 clients costs all nodes together.
func BenchmarkFleet(b *testing.B) {
	f := newFleet(10_000, time.Now())
	model := f.model()
	for _, query := range []string{"sort=state&limit=50", "brief=true&limit=5000", "limit=2000"} {
		b.Run(query, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.query(b, model, query)
			}
		})
	}
}
