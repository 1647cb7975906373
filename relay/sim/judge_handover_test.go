package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestJudgeHandedOver: what a node had that ends on SIGTERM while the control plane is away is with
// the others, if it could know them, for as long as these run and remember it.
func TestJudgeHandedOver(t *testing.T) {
	for name, test := range map[string]struct {
		why    string
		before func(w *World) // when the node ends
		after  func(w *World) // since then
		found  bool
	}{
		"drained":                    {found: true},
		"killed":                     {why: "killed"},
		"the control plane is there": {before: func(w *World) { w.judge.outage = 0 }},
		"it could not reach the other": {before: func(w *World) {
			w.trouble(1, both("n0", "n1", xdstest.Way{Refused: true})...)
			w.heal(1)
		}},
		"Redis is ill":                   {before: func(w *World) { w.redis.ill = 1 }, after: func(w *World) { w.redis.ill = 0 }},
		"the other has just started":     {before: func(w *World) { w.nodes[1].since = time.Now() }},
		"it has had no client for long":  {before: func(*World) { time.Sleep(remembers) }}, //nolint:forbidigo // virtual time
		"it was long ago":                {after: func(*World) { time.Sleep(remembers) }},  //nolint:forbidigo // virtual time
		"the other was killed":           {after: func(w *World) { end(w, "n1", "killed") }},
		"the control plane is back":      {after: func(w *World) { delete(w.originBy, 0) }},
		"the other is cut off from all":  {after: func(w *World) { w.trouble(2, both("n1", clientsHost, xdstest.Way{Refused: true})...) }},
		"the clients left a moment ago":  {before: func(*World) { time.Sleep(lingers) }, found: true}, //nolint:forbidigo // virtual time
		"it returns, and the other ends": {after: passOnBack, found: true},
		"it returns, and the other is killed": {after: func(w *World) {
			begin(w, "n0")
			time.Sleep(calm) //nolint:forbidigo // virtual time
			end(w, "n1", "killed")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, false)
				all := observe(has(1, "a"), came("x"), opened("x", "n0"), got("x", 1, "a"))
				j.look()
				time.Sleep(tick) //nolint:forbidigo // virtual time
				j.look()
				all = append(all, observe(record.Event{Kind: record.ClientEnd, Client: "x", Own: true})...)
				j.world.originBy[0] = true
				j.outage = awayFor
				if test.before != nil {
					test.before(j.world)
				}
				if test.why == "" {
					test.why = "drained"
				}
				end(j.world, "n0", test.why)
				if node := running(j.world); j.successor(node, "k", xdstest.ClusterType) != "" {
					t.Error("found at once")
				}
				time.Sleep(handsOver) //nolint:forbidigo // virtual time
				if test.after != nil {
					test.after(j.world)
				}
				node := running(j.world)
				if found := j.successor(node, "k", xdstest.ClusterType); (found != "") != test.found || found != "" && found != node {
					t.Errorf("%q has it", found)
				}
				if node == "" {
					return
				}
				all = append(all, observe(came("y"), opened("y", node))...)
				y := j.clients["y"]
				all = append(all, j.withheld(y, y.stream, &record.Event{Kind: record.ClientEnd, Client: "y", Unserved: true}, false)...)
				if test.found {
					mustFind(t, all, "ServedByAll")
				} else if len(all) > 0 {
					t.Errorf("found %v", all)
				}
			})
		})
	}
}

// end ends a node of a made-up world, and begin starts it.
func end(w *World, name, why string) {
	n := w.node(name)
	n.relay, n.since = nil, time.Now()
	w.judge.observe(&record.Event{Kind: record.NodeDown, Node: name, Why: why})
}

func begin(w *World, name string) {
	n := w.node(name)
	n.relay, n.since = new(relay.Node), time.Now()
	w.judge.observe(&record.Event{Kind: record.NodeUp, Node: name})
}

// passOnBack returns n0, which then gets what it has passed on to n1.
func passOnBack(w *World) {
	begin(w, "n0")
	time.Sleep(joins) //nolint:forbidigo // virtual time
	end(w, "n1", "drained")
	time.Sleep(calm) //nolint:forbidigo // virtual time
}

// running is the first node that runs.
func running(w *World) string {
	if i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.relay != nil }); i >= 0 {
		return w.nodes[i].name
	}
	return ""
}
