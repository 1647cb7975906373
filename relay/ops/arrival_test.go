package ops

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"xdsrelay/shard"
)

// TestArrivalState: the parts of the nodes are merged so that nothing counts as everywhere that may
// be missing somewhere.
func TestArrivalState(t *testing.T) {
	owner := arrivalPart{Node: "a", With: []string{"red"}, Arrival: Arrival{Clients: 2, Reached: 2, Types: []ArrivalType{{URL: "t", Name: "T", Clients: 2, Reached: 2}}}}
	unconcerned := arrivalPart{Node: "b", Elsewhere: []string{"red"}, Others: map[string]int{"red": 3}}
	detached := unconcerned
	detached.Detached = map[string]string{"red": "why"}
	behind := owner
	behind.Reached, behind.Behind = 1, []ArrivalClient{{Name: "c"}}
	withPeer := owner
	withPeer.Nodes = []ArrivalNode{{Node: "b", Key: "red"}}
	for _, c := range []struct {
		name                      string
		a, b                      *arrivalPart
		silent                    bool
		node                      string
		want                      ArrivalState
		clients, reached, without int
	}{
		{name: "no node has it", a: &unconcerned, b: &unconcerned, want: VersionUnknown, without: 1},
		{name: "everywhere", a: &owner, b: &unconcerned, want: VersionReached, clients: 5, reached: 5},
		{name: "a client is behind", a: &behind, b: &unconcerned, want: VersionWaiting, clients: 5, reached: 4},
		{name: "of another node", a: &behind, b: &unconcerned, node: "b", want: VersionReached, clients: 3, reached: 3},
		{name: "a node is behind", a: &withPeer, b: &unconcerned, want: VersionWaiting, clients: 5, reached: 5},
		{name: "a node has no stream", a: &owner, b: &detached, want: VersionWaiting, clients: 5, reached: 2},
		{name: "a node is silent", a: &owner, silent: true, want: VersionWaiting, clients: 2, reached: 2},
		{name: "no client matches", a: &arrivalPart{Node: "a", With: []string{"red"}}, b: &arrivalPart{Node: "b"}, want: VersionWaiting},
		{name: "a key without it", a: &owner, b: &arrivalPart{Node: "b", Elsewhere: []string{"blue"}, Others: map[string]int{"blue": 1}}, want: VersionWaiting, clients: 2, reached: 2, without: 1},
	} {
		nodes := &Nodes{
			Self:    func() shard.Member { return shard.Member{Name: "a"} },
			Members: func() []shard.Member { return []shard.Member{{Name: "a"}, {Name: "b"}} },
			Ask: func(_ context.Context, m shard.Member, path string) ([]byte, error) {
				if _, query, _ := strings.Cut(path, "?"); query == "" {
					t.Errorf("%s: no query", c.name)
				} else if v, err := url.ParseQuery(query); err != nil || v.Get(ParamVersion) != "v1" {
					t.Errorf("%s: %q", c.name, query)
				}
				switch {
				case m.Name == "a":
					return json.Marshal(c.a)
				case c.silent:
					return nil, context.DeadlineExceeded
				}
				return json.Marshal(c.b)
			},
		}
		got := (&Model{nodes: nodes}).Arrival(t.Context(), "v1", Query{Limit: 1, Node: c.node})
		if got.State != c.want || got.Clients != c.clients || got.Reached != c.reached || got.KeysWithout != c.without {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
