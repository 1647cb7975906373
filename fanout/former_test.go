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

	"xdsrelay/relay/aggregation"
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
	w.world = newWorld(t, func(c *Config) { c.Rules = w.rules.Load })
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
