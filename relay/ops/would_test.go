package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"xdsrelay/fanout"
	"xdsrelay/relay/config"
)

// TestShares: nodes end streams in proportion to those that are due, and never more than asked for.
func TestShares(t *testing.T) {
	node := func(name string, due int) Sums {
		return Sums{Node: name, Former: map[Former]int{FormerKeyChanges: due, FormerKeyStays: 1000, FormerRefused: 50}}
	}
	for _, tc := range []struct {
		due  [3]int
		most int
		want map[string]int
	}{
		{[3]int{10, 0, 5}, 100, map[string]int{"a": 10, "c": 5}},
		{[3]int{300, 600, 100}, 100, map[string]int{"a": 30, "b": 60, "c": 10}},
		{[3]int{5, 5, 5}, 1, map[string]int{"c": 1}},
		{[3]int{1, 1000, 1}, 100, map[string]int{"b": 99, "c": 1}},
		{[3]int{}, 10, map[string]int{}},
	} {
		got := shares([]Sums{node("a", tc.due[0]), node("b", tc.due[1]), node("c", tc.due[2])}, tc.most)
		if !maps.Equal(got, tc.want) {
			t.Errorf("%v with %d: %v, expected %v", tc.due, tc.most, got, tc.want)
		}
	}
}

// TestJoinWouldOwnFields: names and addresses of a node differ from those of all other nodes of a tier.
// They are compared with the node that has the name in the configuration, if there is one.
func TestJoinWouldOwnFields(t *testing.T) {
	own := []string{"node.name", "listener.address", "listeners", "rest.address", "tier.peer.address", "admin.address", "metrics.address"}
	a := wouldPart{Node: "a", Restart: []string{"admin.address", "cache.linger"}}
	b := wouldPart{Node: "b", Restart: append([]string{"cache.linger"}, own...)}
	c := wouldPart{Node: "c", Restart: append([]string{"cache.linger"}, own...)}
	if got := fmt.Sprint(joinWould([]wouldPart{a, b, c}, nil).Fields); got != "[{admin.address restart [a]} {cache.linger restart [a b c]} {listeners restart [b c]}]" {
		t.Errorf("of the file of one node: %s", got)
	}
	if got := len(joinWould([]wouldPart{b, c}, nil).Fields); got != len(own)+1 {
		t.Errorf("of a file for no node of the tier: %d fields", got)
	}
	b.Restart, c.Restart = a.Restart, a.Restart
	if got := fmt.Sprint(joinWould([]wouldPart{a, b, c}, nil).Fields); got != "[{admin.address restart [a b c]} {cache.linger restart [a b c]}]" {
		t.Errorf("of a file for all nodes: %s", got)
	}
}

// TestJoinWould: the answers of nodes are added up, and bounded.
func TestJoinWould(t *testing.T) {
	part := func(node string, moves int) wouldPart {
		p := wouldPart{Node: node, Live: []string{"aggregation.rules"}}
		for i := range moves {
			p.Moves = append(p.Moves, Move{From: "all", To: fmt.Sprintf("%s-%d", node, i), Clients: 1})
		}
		p.Moves = append(p.Moves, Move{From: "all", To: "shared", Clients: 5})
		for i := range 4 {
			p.refuse(byAuthorization, fanout.Ruling{Rule: "own", Reason: "denied"}, fmt.Sprint(node, i))
		}
		return p
	}
	a, b := part("a", mostMoves-1), part("b", mostMoves-1)
	b.Live, b.Restart = nil, []string{"cache.linger"}
	w := joinWould([]wouldPart{a, b}, []Silent{{Node: "c"}})
	if len(w.Moves) != mostMoves || w.MovesOmitted != mostMoves-1 || w.Moves[0] != (Move{"all", "shared", 10}) {
		t.Errorf("%d moves and %d more, the first %+v", len(w.Moves), w.MovesOmitted, w.Moves[0])
	}
	if got := fmt.Sprint(w.Refused, w.Refusals, w.Fields, len(w.Silent)); got != "8 [{authorization own denied 8 [a0 a1 a2]}] [{aggregation.rules live [a]} {cache.linger restart [b]}] 1" {
		t.Errorf("got %s", got)
	}
}

// TestUsage: limits per source and identity name the one who exceeds them most.
func TestUsage(t *testing.T) {
	u := newUsage()
	u.connections = map[string]int{"": 7, ofSource + "10.0.0.1": 5, ofSource + "10.0.0.2": 2, ofIdentity + "spiffe://corp/a": 4}
	u.keys = map[string]struct{}{"a": {}, "b": {}}
	u.ownKeys = map[[2]string]struct{}{{ofIdentity + "spiffe://corp/a", "a"}: {}, {ofIdentity + "spiffe://corp/a", "b"}: {}}
	got := fmt.Sprint(u.over("n", CandidateLimits{Connections: 7, ConnectionsPerSource: 1, ConnectionsPerIdentity: 3, Keys: 1, KeysPerIdentity: 1}))
	if got != "[{n limits.max_connections_per_source 10.0.0.1 1 5 1} {n limits.max_connections_per_identity spiffe://corp/a 0 4 3} {n limits.max_keys  0 2 1} {n limits.max_keys_per_identity spiffe://corp/a 0 2 1}]" {
		t.Errorf("got %s", got)
	}
}

// FuzzParseCandidate: whatever a candidate is, reading it ends with a candidate or an error, and what
// was read can be compared and compiled.
func FuzzParseCandidate(f *testing.F) {
	text, err := json.Marshal(CandidateOf(config.Default(), []byte(strings.Repeat("s", config.LeastSalt))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"rules": [{"key": "node.id", "match": "true"}], "authorization": [{"match": "peer.authenticated"}], "limits": {"max_keys": -1}}`))
	f.Add([]byte(`{"salt": "00", "fields": {"": ""}} {}`))
	cfg := config.Default()
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCandidate(text)
		if err != nil {
			return
		}
		c.changes(cfg, cfg)
		_, _, _ = c.compiled()
	})
}
