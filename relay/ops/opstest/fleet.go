// Package opstest has a tier with a large fleet of made-up clients, for tests of what the read model costs.
package opstest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
)

// fleetClient is a client whose state is made up.
type fleetClient struct {
	id, key, peer string
	info          fanout.StreamInfo
}

func (c *fleetClient) Key() string                                { return c.key }
func (c *fleetClient) ID() string                                 { return c.id }
func (c *fleetClient) Peer() string                               { return c.peer }
func (c *fleetClient) Node() *corev3.Node                         { return &corev3.Node{Id: c.id} }
func (c *fleetClient) Info() fanout.StreamInfo                    { return c.info }
func (c *fleetClient) Rollout() *fanout.ClientRollout             { return nil }
func (c *fleetClient) Resources(func(fanout.ResourceStatus) bool) {}
func (c *fleetClient) Holdings() []fanout.TypeDiff                { return nil }
func (c *fleetClient) Rule(*aggregation.Rules, *authorize.Policy) fanout.Ruling {
	return fanout.Ruling{}
}
func (c *fleetClient) Find(func(*cache.Table) []string, func(*fanout.FoundResource) bool) {}
func (c *fleetClient) Reach(*cache.Table, cache.UpdateRef) (fanout.State, time.Time, bool) {
	return "", time.Time{}, false
}

// Fleet has this many clients on three nodes: of each hundred, two reject, three are late, and one asks for
// what does not exist.
type Fleet struct {
	nodes   map[string][]fanout.Client
	answers map[string]map[string]func(context.Context, url.Values) (any, error)
	// Bytes counts what the nodes send each other.
	Bytes atomic.Int64
	// Keys is how many keys each node has, with 10 clients each. It is set before Model.
	Keys int
}

var fleetTypes = []string{resource.ClusterURL, resource.EndpointURL, resource.ListenerURL, resource.RouteURL, resource.SecretURL}

// New makes a fleet of that many clients.
func New(size int, now time.Time) *Fleet {
	f := &Fleet{nodes: make(map[string][]fanout.Client), answers: make(map[string]map[string]func(context.Context, url.Values) (any, error))}
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

// Model is how the first node sees the tier.
func (f *Fleet) Model() *ops.Model {
	member := func(name string) shard.Member { return shard.Member{Name: name} }
	all := &ops.Nodes{
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
			f.Bytes.Add(int64(len(text)))
			return text, err
		},
	}
	var first *ops.Model
	for _, node := range []string{"c", "b", "a"} {
		f.answers[node] = make(map[string]func(context.Context, url.Values) (any, error))
		local := ops.Local{
			Node: node, Clients: func() []fanout.Client { return append([]fanout.Client(nil), f.nodes[node]...) }, Groups: func() []*cache.Group { return nil },
			GroupInfos: f.keys, Places: func() map[string]tier.Place { return nil },
		}
		first = ops.New(local, all, func(path string, h func(context.Context, url.Values) (any, error), _ ...string) {
			f.answers[node][path] = h
		})
	}
	return first
}

// keys are those of a node.
func (f *Fleet) keys() (all []cache.GroupInfo) {
	for i := range f.Keys {
		all = append(all, cache.GroupInfo{Key: fmt.Sprintf("shop/%d", i), Clients: 10, Connected: i%100 != 3, Error: strings.Repeat("connection refused ", (i%100)/99)})
	}
	return all
}
