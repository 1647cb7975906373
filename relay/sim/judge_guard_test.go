package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestJudgeGuard: a client that loses what the removal guard should hold back is found where
// a node, or the store, that can be reached still has it, and only there. That the client
// itself had it does not count.
func TestJudgeGuard(t *testing.T) {
	lost := record.Event{Kind: record.ClientGot, Client: "x", Key: "k", Type: xdstest.ClusterType, Delta: true, Removed: []string{"a"}}
	nothing := record.Event{Kind: record.ClientGot, Client: "x", Key: "k", Type: xdstest.ClusterType, Delta: true}
	start := func(nodes ...string) (all []record.Event) {
		all = append(all, has(1, "a"), came("x"), came("y"))
		for i, node := range nodes {
			client := []string{"x", "y"}[i]
			all = append(all, opened(client, node), got(client, 1, "a"))
		}
		return all
	}
	killed := func(node string) record.Event {
		return record.Event{Kind: record.NodeDown, Node: node, Why: "killed"}
	}
	drained, started := record.Event{Kind: record.NodeDown, Node: "n0", Why: "drained"}, record.Event{Kind: record.NodeUp, Node: "n0"}
	cut, reached := record.Event{Kind: record.NodeDown, Node: "n0", Why: cutOffWhy}, record.Event{Kind: record.NodeUp, Node: "n0", Why: cutOffWhy}
	empty := has(absent, "a")
	gone, emptied := []record.Event{has(3, "b"), empty}, []record.Event{has(2, "a"), has(absent, "b"), empty}
	sent := record.Event{Kind: record.OriginSent, Key: "k", Type: xdstest.ClusterType, Resources: []record.Resource{{Name: "b", Serial: 3}}}
	back := []record.Event{{Kind: record.ClientEnd, Client: "x", Own: true}, opened("x", "n0"), nothing}
	for name, tc := range map[string]struct {
		before []record.Event // after which there is calm
		wrong  func(j *judge)
		after  []record.Event
		kept   string
		found  bool
	}{
		"the node had it": {before: append(start("n0"), empty), found: true},
		"another had it":  {before: append(start("n0", "n1"), killed("n0"), empty), after: back, found: true},
		"a node sent it while it drained, and started again": {before: append(start("n0"), drained, got("x", 1, "a"), started, empty), after: back},
		"a node was cut off, and sent it since":              {before: append(start("n0"), cut, got("x", 1, "a"), reached, empty), found: true},
		"nobody has it":                                      {before: append(start("n0"), killed("n0"), empty), after: back},
		"all who had it were killed":                         {before: append(start("n0", "n1"), killed("n0"), killed("n1"), empty), after: back},
		"the store has it":                                   {before: start("n0"), kept: "redis", after: append([]record.Event{killed("n0"), empty}, back...), found: true},
		"the store was emptied":                              {before: start("n0"), kept: "redis", after: append([]record.Event{{Kind: record.Fault, Why: "1s 0s redis-flush"}, killed("n0"), empty}, back...)},
		"it was cut off for its clients":                     {before: append(start("n0"), record.Event{Kind: record.NodeDown, Node: "n0", Why: cutOffWhy}, empty), found: true},
		"another cannot be reached": {before: append(start("n0", "n1"), killed("n0"), empty), after: back,
			wrong: func(j *judge) { j.world.trouble(1, both("n0", "n1", xdstest.Way{Refused: true})...) }},
		"another could not be reached a moment ago": {before: append(start("n0", "n1"), killed("n0"), empty), after: back,
			wrong: func(j *judge) {
				j.world.trouble(1, both("n0", "n1", xdstest.Way{Refused: true})...)
				j.world.heal(1)
			}},
		"a node started while Redis was away": {before: append(start("n0"), empty), wrong: func(j *judge) { j.world.nodes[1].blind = true }},
		"its clients left long ago": {before: append(start("n0"), record.Event{Kind: record.ClientEnd, Client: "x", Own: true}, empty),
			wrong: func(*judge) { time.Sleep(lingers) }, after: []record.Event{opened("x", "n0")}}, //nolint:forbidigo // virtual time
		"its clients left long ago, and one has returned": {before: append(start("n0"), record.Event{Kind: record.ClientEnd, Client: "x", Own: true}, empty),
			wrong: func(j *judge) {
				time.Sleep(lingers) //nolint:forbidigo // virtual time
				e := opened("x", "n0")
				j.observe(&e)
				j.look()
			}},
		"the network of its clients stalled for long": {before: append(start("n0"), empty),
			wrong: func(j *judge) {
				j.world.trouble(1, both("n0", clientsHost, xdstest.Way{Stalled: true})...)
				for range 2 {
					time.Sleep(lingers) //nolint:forbidigo // virtual time
					j.look()
				}
				j.world.heal(1)
				e := got("x", 1, "a") // from before
				e.Node = "n0"
				j.observe(&e)
			}},
		"it was gone before":                 {before: append(start("n0"), empty, has(1, "b"))},
		"it was gone for a while before":     {before: slices.Concat(start("n0"), gone, []record.Event{sent}, emptied)},
		"it was gone twice before":           {before: slices.Concat(start("n0"), gone, []record.Event{has(2, "a"), empty, sent, has(absent, "b")})},
		"a removal before it was never sent": {before: slices.Concat(start("n0"), gone, emptied), found: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, true)
				j.world.plan.Kept = tc.kept
				all := observe(tc.before...)
				time.Sleep(2 * calm) //nolint:forbidigo // virtual time
				all = append(all, j.look()...)
				if tc.wrong != nil {
					tc.wrong(j)
				}
				var judged []check.Contradiction
				for _, c := range append(all, observe(append(tc.after, lost)...)...) {
					if c.Guarantee == "Guard" {
						judged = append(judged, c)
					}
				}
				if (len(judged) > 0) != tc.found {
					t.Errorf("found %v, expected any: %t", judged, tc.found)
				}
			})
		})
	}
}

// TestJudgeGuardFrom: a hold counts from when the control plane became empty, and again from when
// it became so once more. What returned and went within one moment was never sent.
func TestJudgeGuardFrom(t *testing.T) {
	at := func(after time.Duration, e record.Event) record.Event { e.At = after; return e }
	for name, tc := range map[string]struct {
		back, gone time.Duration // when a resource returned, and went again
		found      bool
	}{
		"for no time":  {back: 30 * time.Second, gone: 30 * time.Second},
		"for a second": {back: 30 * time.Second, gone: 31 * time.Second, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, true)
				observe(has(1, "a"), came("x"), opened("x", "n0"), got("x", 1, "a"))
				var all []check.Contradiction
				for _, e := range []record.Event{
					at(time.Second, has(absent, "a")), at(tc.back, has(2, "a")), at(tc.gone, has(absent, "a")),
					at(time.Second+guardHold, record.Event{Kind: record.ClientGot, Client: "x", Key: "k", Type: xdstest.ClusterType, Delta: true, Removed: []string{"a"}}),
				} {
					all = append(all, j.observe(&e)...)
				}
				if (len(all) > 0) != tc.found {
					t.Errorf("found %v, expected any: %t", all, tc.found)
				}
			})
		})
	}
}
