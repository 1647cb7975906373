package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
	"xdsrelay/relay/terms"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// rules stands for an explanation.
type rules string

func (r rules) String() string { return string(r) }

// testTier has two keys, one with all that an operator should look at.
func testTier() Tier {
	now := time.Now()
	keys := []ops.Key{
		{Key: "a", Owner: "n1", Nodes: []ops.NodeKey{
			{Key: "a", Node: "n1", State: "owner", Since: now.Add(-time.Minute), Clients: 3, Peers: 1, Connected: true, Resources: 5, Bytes: 100, HeldRemovals: 2},
			{Key: "a", Node: "n2", State: "follower", From: "n1", Since: now.Add(-time.Minute), Clients: 4, Connected: true, Resources: 5, Bytes: 100},
		}},
		{Key: "b\x1b", Owner: "n2", Nodes: []ops.NodeKey{
			{Key: "b\x1b", Node: "n1", State: "idle", Stale: true},
			{Key: "b\x1b", Node: "n2", State: "fallback", From: "n3", Error: "gone"},
		}},
	}
	silent := []ops.Silent{{Node: "n3", Error: "no route\n"}}
	own := ops.NodeState{Node: "n1", Sums: ops.Sums{Streams: 5}, Redis: &store.State{Since: now.Add(-time.Minute), Error: "no answer\n"}}
	return Tier{
		Model: modelOf(keys, silent),
		Members: func() ops.Members {
			return ops.Members{Self: "n1", Heard: now.Add(-time.Hour), Members: []shard.Member{
				{Name: "n1", Peer: "h1:1", Version: "v1", Since: now.Add(-time.Hour), Status: shard.Status{Clients: 5}},
				{Name: "n2", Status: shard.Status{Draining: true}}, {Name: "n3", Status: shard.Status{Cut: true}},
			}, Missing: []ops.Missing{{Member: shard.Member{Name: "n4", Peer: "h4:1"}, Listed: true, Heard: now.Add(-time.Minute), Error: "refused"}},
				Differences: []terms.Difference{{Node: "n2", From: "n1", Parts: []string{"upstream"}, Since: now.Add(-time.Minute)}}}
		},
		Own:    func() ops.NodeState { return own },
		Nodes:  func(context.Context) ([]ops.NodeState, []ops.Silent) { return []ops.NodeState{own}, silent },
		Series: func(context.Context, int64) ([]series.Part, []ops.Silent) { return nil, silent },
		Explain: func(_ context.Context, node, peer []byte) (Explained, error) {
			switch string(node) {
			case "bad":
				return Explained{}, errors.New("node file: bad")
			case "refused":
				return Explained{Rules: rules("refused: no\n"), Refused: true}, nil
			}
			return Explained{Rules: rules("rule " + string(node) + " " + string(peer) + "\n"), Key: &keys[0]}, nil
		},
		Rollout: ops.ShowRollout{
			Status:  func(string) (ops.Rollout, error) { return ops.Rollout{}, nil },
			Active:  func(context.Context) ops.Rollout { return ops.Rollout{} },
			History: func(string) (ops.RolloutHistory, error) { return ops.RolloutHistory{}, ops.ErrUnknownKey },
			Diff:    func(string) (ops.RolloutDiff, error) { return ops.RolloutDiff{}, ops.ErrUnknownKey },
			Plan:    func(string) (ops.RolloutPlan, error) { return ops.RolloutPlan{}, ops.ErrUnknownKey },
			Order: func(_ context.Context, o ops.RolloutOrder) (ops.RolloutOrdered, error) {
				return ops.RolloutOrdered{Order: o.Do, Key: o.Key}, nil
			},
		},
		Release: func(_ context.Context, key string) (Released, error) {
			done := Released{Key: key, Silent: silent}
			switch key {
			case "a":
				done.Removals = 2
			case "one":
				done.Removals = 1
			case "none":
			default:
				return done, ops.ErrUnknownKey
			}
			return done, nil
		},
		Drain: func() (Draining, error) { return Draining{Node: "n1", Clients: 7, Over: 20}, nil },
	}
}

// TestTierPages holds what people see of a tier.
func TestTierPages(t *testing.T) {
	cfg := testConfig()
	cfg.Tier = testTier()
	ask := serve(t, cfg)
	for path, want := range map[string]string{
		"/tier/nodes": `
NODE  STATE     CLIENTS  STREAMS  VERSION  UPTIME  SELF  PEER ADDRESS  OWNED KEYS  ERROR
n1    ok        0        5        v1       1h0m0s  *     h1:1          0           -
n2    draining  0        0        -        -       -     -             0           -
n3    silent    -        -        -        -       -     -             -           no route?
n4    silent    -        -        -        -       -     h4:1          -           refused

error: Node n3 does not answer: no route
error: Node n4 of tier.nodes does not answer (for 1m0s): refused
error: Redis is unreachable from node n1 (for 1m0s); its clients are not affected: no answer
warning: Node n2 is draining: it hands over its keys, sheds its clients, and exits
warning: Node n2 has a config mismatch with node n1 (for 1m0s): upstream
`,
		"/tier/keys": `
KEY  OWNER  NODE  STATE                           SINCE  STREAMS  RESOURCES  PEER STREAMS  BYTES  UPDATES  CONTROL PLANE VERSION  NOTES
a    n1     n1    owner                           1m0s   3        5          1             100    0        -                      2 held removals
a    n1     n2    follower of n1                  1m0s   4        5          0             100    0        -                      -
b?   n2     n1    idle                            -      0        0          0             0      0        -                      last known good, unconfirmed
b?   n2     n2    fallback, owner n3 unreachable  -      0        0          0             0      0        -                      no upstream stream; gone

node n3 did not answer: no route?
`,
		"/tier/keys?key=c": `
no node has the key "c"; 'xdsrelay keys' lists the keys
node n3 did not answer: no route?
`,
		"/tier/keys?key=B": `
no node has the key "B"; did you mean "b\x1b"? 'xdsrelay keys' lists the keys
node n3 did not answer: no route?
`,
		"/tier/owner?key=a": `
owner: n1

NODE  STATE           SINCE  STREAMS  RESOURCES  NOTES
n1    owner           1m0s   3        5          2 held removals
n2    follower of n1  1m0s   4        5          -

node n3 did not answer: no route?
`,
		"/tier/owner?key=new": `
owner: n1
no node has the key: no client with it is connected
node n3 did not answer: no route?
`,
		"/tier/owner": "\nthe parameter key is missing: expected ?key=KEY\n",
	} {
		if res := ask("GET", path); "\n"+res.text != want {
			t.Errorf("%s is\n%s\nwant%s", path, res.text, want)
		}
	}
}

// TestOrders holds what becomes of requests that change something, and that those of a
// web page are refused: it cannot set the header.
func TestOrders(t *testing.T) {
	cfg := testConfig()
	cfg.Tier = testTier()
	ask := serve(t, cfg)
	for _, tc := range []struct {
		method, path string
		code         int
		text         string
	}{
		{"POST", "/drain", http.StatusAccepted, "node n1 is draining: it hands over its keys, closes 7 streams over 20s, and exits\n"},
		{"POST", "/removals/approve?key=a", http.StatusOK, "approved 2 removals of key \"a\"\nnode n3 did not answer: no route?\n"},
		{"POST", "/removals/approve?key=one", http.StatusOK, "approved 1 removal of key \"one\"\nnode n3 did"},
		{"POST", "/removals/approve?key=none", http.StatusOK, "no removals of key \"none\" are held back\nnode n3 did"},
		{"POST", "/removals/approve?key=x", http.StatusNotFound, "no node has the key \"x\""},
		{"POST", "/removals/approve", http.StatusBadRequest, "the parameter key is missing"},
		{"POST", "/tier/explain?peer=p", http.StatusOK, "rule  p\n\nowner: n1\n"},
	} {
		res := ask(tc.method, tc.path, RequestHeader, "1")
		if res.code != tc.code || !strings.HasPrefix(res.text, tc.text) {
			t.Errorf("%s %s: %d %q", tc.method, tc.path, res.code, res.text)
		}
		if res := ask(tc.method, tc.path); res.code != http.StatusForbidden || !strings.Contains(res.text, RequestHeader) {
			t.Errorf("%s %s without the header: %d %q", tc.method, tc.path, res.code, res.text)
		}
		if res := ask(tc.method, tc.path, RequestHeader, "1", "Host", "evil.example"); res.code != http.StatusForbidden {
			t.Errorf("%s %s for another host: %d %q", tc.method, tc.path, res.code, res.text)
		}
		if res := ask("GET", tc.path, RequestHeader, "1"); res.code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", tc.path, res.code)
		}
	}
	cfg.Tier.Drain = func() (Draining, error) { return Draining{}, errors.New("the node is already draining") }
	if res := serve(t, cfg)("POST", "/drain", RequestHeader, "1"); res.code != http.StatusConflict || res.text != "the node is already draining\n" {
		t.Errorf("a second drain: %d %q", res.code, res.text)
	}
}

// modelOf is the model of a tier of n1, which has no clients, n2, and the nodes that do not answer.
func modelOf(keys []ops.Key, silent []ops.Silent) *ops.Model {
	self := shard.Member{Name: "n1"}
	answers := make(map[string]func(context.Context, url.Values) (any, error))
	all := &ops.Nodes{
		Self: func() shard.Member { return self },
		Members: func() []shard.Member {
			members := []shard.Member{self, {Name: "n2"}}
			for _, s := range silent {
				members = append(members, shard.Member{Name: s.Node})
			}
			return members
		},
		Owner: func(key string) string {
			if i := slices.IndexFunc(keys, func(k ops.Key) bool { return k.Key == key }); i >= 0 {
				return keys[i].Owner
			}
			return self.Name
		},
		Ask: func(ctx context.Context, m shard.Member, path string) ([]byte, error) {
			if i := slices.IndexFunc(silent, func(s ops.Silent) bool { return s.Node == m.Name }); i >= 0 {
				return nil, errors.New(silent[i].Error)
			}
			at, err := url.Parse(path)
			if err != nil {
				return nil, err
			}
			if at.Path == "keys" {
				q, err := ops.ParseKeyQuery(at.Query())
				if err != nil {
					return nil, err
				}
				var rows []ops.NodeKey
				for _, k := range keys {
					for _, row := range k.Nodes {
						if row.Node == m.Name && q.Wants(row.Key) {
							rows = append(rows, row)
						}
					}
				}
				return json.Marshal(rows)
			}
			if m.Name != self.Name {
				return []byte("null"), nil
			}
			answer, err := answers[at.Path](ctx, at.Query())
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		},
	}
	local := ops.Local{Node: "n1", Peers: func() []fanout.StreamInfo { return nil }, Places: func() map[string]tier.Place { return nil }, Clients: func() []fanout.Client { return nil }, Groups: func() []*cache.Group { return nil }, Orders: testOrders(func(bool) int { return 2 })}
	return ops.New(local, all, func(path string, h func(context.Context, url.Values) (any, error), _ ...string) {
		answers[path] = h
	})
}
