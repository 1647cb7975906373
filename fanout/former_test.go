package fanout

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/fanout/journal"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/xdstest"
)

// ruled is a world whose aggregation rules change.
type ruled struct {
	*world
	rules atomic.Pointer[aggregation.Rules]
}

func newRuled(t *testing.T, list ...aggregation.Rule) *ruled {
	t.Helper()
	w := &ruled{}
	w.compile(t, list...)
	w.world = newWorld(t, func(c *Config) { c.Rules, c.EventBytes = w.rules.Load, 4096 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.srv.RunRechecks(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *ruled) compile(t *testing.T, list ...aggregation.Rule) {
	t.Helper()
	rules, err := aggregation.Compile(list, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.rules.Store(rules)
}

// change puts other rules into force.
func (w *ruled) change(t *testing.T, list ...aggregation.Rule) {
	t.Helper()
	w.compile(t, list...)
	w.srv.RulesChanged()
	synctest.Wait()
}

func (w *ruled) open(node *corev3.Node) *xdstest.Stream {
	w.t.Helper()
	c := w.dial()
	c.Node = node
	s := c.Open(xdstest.Variant{Delta: true})
	s.Subscribe(cds)
	synctest.Wait()
	return s
}

// TestFormerRules: after a change of the rules, each stream says how its key compares with the new
// rules, and the clients whose key changes can be ended, in steps. A client that reconnects is on
// the rules in force.
func TestFormerRules(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newRuled(t, aggregation.Rule{Name: "all", Key: "node.cluster"})
		node := func(id, cluster string) *corev3.Node { return &corev3.Node{Id: id, Cluster: cluster} }
		large := node("large", "large")
		large.UserAgentName = strings.Repeat("x", maxNode) // of it, only id and cluster are kept
		streams := map[string]*xdstest.Stream{}
		for _, n := range []*corev3.Node{node("a", "shop"), node("b", "shop"), node("c", "edge"), node("d", "closed"), large} {
			streams[n.GetId()] = w.open(n)
		}
		if got := w.srv.CountFormer(); got != nil {
			t.Errorf("before a change, %v", got)
		}
		w.change(t,
			aggregation.Rule{Name: "shop", Match: `node.cluster == "shop"`, Key: `"new-" + node.cluster`},
			aggregation.Rule{Name: "edge", Match: `node.cluster == "edge"`, Key: "node.cluster"},
			aggregation.Rule{Name: "agent", Match: `node.user_agent_name != ""`, Key: "node.cluster"},
		)
		want := map[Former]int{FormerKeyChanges: 2, FormerKeyStays: 1, FormerRefused: 1, FormerUnknown: 1}
		if got := w.srv.CountFormer(); !maps.Equal(got, want) {
			t.Errorf("after the change %v, expected %v", got, want)
		}
		for _, i := range w.srv.Streams() {
			if i.NodeID == "a" && i.Former != FormerKeyChanges {
				t.Errorf("stream %+v", i)
			}
		}
		w.open(node("e", "shop"))
		var steps []int
		for range 3 {
			steps = append(steps, w.srv.EndFormer(2))
			synctest.Wait()
		}
		if got := fmt.Sprint(steps); got != "[2 1 0]" {
			t.Errorf("ended %s", got)
		}
		for _, id := range []string{"a", "b", "large"} {
			if st := streams[id].ExpectClosed(t); st.Code() != codes.Unavailable || !strings.Contains(st.Message(), "aggregation rules changed") {
				t.Errorf("%s: %v", id, st)
			}
			left, _ := w.srv.Events(id)
			if n := len(left[0].Events); left[0].Events[n-1].End != journal.RulesChanged {
				t.Errorf("the last event of %s is %+v, expected the change of rules", id, left[0].Events[n-1])
			}
		}
		if got := w.srv.CountFormer(); !maps.Equal(got, map[Former]int{FormerKeyStays: 1, FormerRefused: 1}) {
			t.Errorf("at the end %v", got)
		}
		w.change(t, aggregation.Rule{Name: "shop", Key: `"new-" + node.cluster`}) // for the client of the rules before, the same
		if got := w.srv.CountFormer(); !maps.Equal(got, map[Former]int{FormerKeyStays: 1, FormerKeyChanges: 2}) {
			t.Errorf("after another change %v", got)
		}
	})
}

// TestRuling: what rules would decide about a client uses only what the node keeps of it, and says
// when that is too little.
func TestRuling(t *testing.T) {
	rules, err := aggregation.Compile([]aggregation.Rule{
		{Name: "peer", Match: `node.cluster == "edge"`, Key: "peer.spiffe_id"},
		{Name: "none", Match: `node.cluster == "none"`, Key: `""`},
		{Name: "rest", Key: "string(node.metadata.team)"},
	}, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := authorize.Compile([]authorize.Rule{{Name: "old", Match: `node.user_agent_name == "old"`, Deny: true}, {Name: "all", Match: `listener != "closed"`}})
	if err != nil {
		t.Fatal(err)
	}
	md, err := structpb.NewStruct(map[string]any{"team": "a"})
	if err != nil {
		t.Fatal(err)
	}
	keep := func(n *corev3.Node) Kept {
		raw, err := proto.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		node, fields := KeepNode(raw)
		return Kept{Node: node, Set: fields, Peer: &aggregation.Peer{Authenticated: true, SPIFFEID: "spiffe://corp/a"}}
	}
	long := strings.Repeat("x", maxNode)
	for _, tc := range []struct {
		name   string
		node   *corev3.Node
		change func(*Kept)
		policy *authorize.Policy
		want   string
	}{
		{"a key", &corev3.Node{Id: "a", Cluster: "shop", Metadata: md}, nil, policy, "0 rest "},
		{"denied", &corev3.Node{Id: "a", UserAgentName: "old"}, nil, policy, "1 old denied"},
		{"no listener", &corev3.Node{Id: "a"}, func(k *Kept) { k.Peer.Listener = "closed" }, policy, "1  no_rule"},
		{"no key", &corev3.Node{Id: "a", Cluster: "none"}, nil, nil, "2 none empty_key"},
		{"without its metadata", &corev3.Node{Id: "a", Cluster: "shop"}, nil, nil, "2 rest rule_failed"},
		{"too large for what authorization reads", &corev3.Node{Id: "a", UserAgentName: long}, nil, policy, "3  "},
		{"too large for what aggregation reads", &corev3.Node{Id: "a", UserAgentName: long}, nil, nil, "4  "},
		{"without its certificate", &corev3.Node{Id: "a", Cluster: "edge"}, func(k *Kept) { k.Peer = nil }, nil, "4  "},
		{"not decodable", &corev3.Node{Id: "a"}, func(k *Kept) { k.Node = "\xff" }, nil, "3  "},
	} {
		k := keep(tc.node)
		if tc.change != nil {
			tc.change(&k)
		}
		r := k.Rule(rules, tc.policy)
		if got := fmt.Sprintf("%d %s %s", r.Kind, r.Rule, r.Reason); got != tc.want || (r.Kind == GetsKey) != (r.Key != "") {
			t.Errorf("%s: got %q and key %q, expected %q", tc.name, got, r.Key, tc.want)
		}
	}
}

// BenchmarkRuling is the cost of one client in the evaluation of other rules.
func BenchmarkRuling(b *testing.B) {
	rules, err := aggregation.Compile([]aggregation.Rule{{Match: `node.cluster == "edge"`, Key: "node.id"}, {Key: `node.cluster + "/" + string(node.metadata.team)`}}, aggregation.Options{})
	if err != nil {
		b.Fatal(err)
	}
	fields := map[string]any{"team": "a"}
	for i := range 50 {
		fields[fmt.Sprint("label-", i)] = "value"
	}
	md, err := structpb.NewStruct(fields)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := proto.Marshal(&corev3.Node{Id: "a", Cluster: "shop", Metadata: md})
	if err != nil {
		b.Fatal(err)
	}
	node, set := KeepNode(raw)
	k := Kept{Node: node, Set: set, Peer: &aggregation.Peer{}}
	b.ReportAllocs()
	for b.Loop() {
		if k.Rule(rules, nil).Key == "" {
			b.Fatal("no key")
		}
	}
}
