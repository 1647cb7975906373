package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// forged is a judge of a made-up world: nodes n0 and n1 run, and have been well for long.
// It finds contradictions in made-up recordings.
func forged(t *testing.T, guard bool) (j *judge, observe func(...record.Event) []check.Contradiction) {
	t.Helper()
	w := &World{plan: Plan{Setup: Setup{Nodes: 2, Guard: guard}}, network: newNetwork(), to: record.NewRecorder(), originBy: map[int]bool{}}
	w.redis = &redis{world: w, host: w.network.memory.NewHost(redisHost, "127.0.0.2")}
	for i := range 2 {
		w.nodes = append(w.nodes, &node{world: w, name: nodeName(i), relay: new(relay.Node)})
	}
	w.judge = newJudge(w)
	return w.judge, func(events ...record.Event) (all []check.Contradiction) {
		for i := range events {
			events[i].At = time.Duration(i)
			all = append(all, w.judge.observe(&events[i])...)
		}
		return all
	}
}

func has(serial int, name string) record.Event {
	return record.Event{Kind: record.OriginState, Key: "k", Type: xdstest.ClusterType, Resources: []record.Resource{{Name: name, Serial: serial}}}
}

func got(client string, serial int, name string) record.Event {
	return record.Event{Kind: record.ClientGot, Client: client, Key: "k", Type: xdstest.ClusterType, Delta: true, Resources: []record.Resource{{Name: name, Serial: serial}}}
}

func opened(client, node string) record.Event {
	return record.Event{Kind: record.ClientOpen, Client: client, Node: node}
}

func came(client string) record.Event {
	return record.Event{Kind: record.ClientNew, Client: client, Key: "k", Delta: true, Wants: map[string][]string{xdstest.ClusterType: nil, xdstest.EndpointType: {"a"}}}
}

// mustFind fails the test unless there is exactly one contradiction, of a guarantee.
func mustFind(t *testing.T, all []check.Contradiction, guarantee string) {
	t.Helper()
	if len(all) != 1 || all[0].Guarantee != guarantee {
		t.Errorf("found %v, expected %s", all, guarantee)
	}
}

// TestJudgeSentBack: a client that had newer content gets older from a node that should
// know the newer; not so where the node could not know, may have sent the older before it
// knew, or where the control plane went back itself.
func TestJudgeSentBack(t *testing.T) {
	start := []record.Event{
		has(1, "a"), has(2, "a"), came("x"), came("y"), opened("x", "n0"), opened("y", "n1"),
		got("x", 2, "a"), got("y", 2, "a"), {Kind: record.ClientEnd, Client: "x", Own: true}, opened("x", "n1"),
	}
	_, observe := forged(t, false)
	mustFind(t, observe(append(start, got("x", 1, "a"))...), "NotBack")

	_, observe = forged(t, false)
	if all := observe(append(start, has(1, "a"), got("x", 1, "a"), has(2, "a"), got("x", 2, "a"))...); len(all) > 0 {
		t.Errorf("found %v where the control plane went back", all)
	}

	j, observe := forged(t, false)
	j.world.trouble(1, both("n0", "n1", xdstest.Way{Stalled: true})...)
	there := slices.Concat(start[:9], []record.Event{opened("x", "n1")})
	there[5] = opened("y", "n0") // nobody has it from n1
	if all := observe(append(there, got("x", 1, "a"))...); len(all) > 0 || j.counts.Excused != 1 {
		t.Errorf("found %v where a node could not know", all)
	}

	for name, wrong := range map[string]func(w *World){
		"":                              func(*World) {},
		"the control plane is away":     func(w *World) { w.originBy[0] = true },
		"the nodes do not reach others": func(w *World) { w.trouble(2, both("n0", "n1", xdstest.Way{Refused: true})...) },
		"delayed":                       func(w *World) { w.trouble(2, both("n0", "n1", xdstest.Way{Delay: time.Second})...) },
	} {
		j, observe := forged(t, false)
		j.world.trouble(1, both("n0", originHost, xdstest.Way{Stalled: true})...)
		wrong(j.world)
		if all := observe(append(start, got("x", 1, "a"))...); (len(all) == 0) != (name != "the nodes do not reach others") {
			t.Errorf("found %v where the connection of another node to the control plane has stalled; %s", all, name)
		}
	}

	synctest.Test(t, func(t *testing.T) {
		j, observe := forged(t, false)
		j.world.trouble(1, both("n1", clientsHost, xdstest.Way{Delay: time.Second})...)
		if all := observe(append(start, got("x", 1, "a"))...); len(all) > 0 || j.counts.Excused != 1 {
			t.Errorf("found %v where it may have been sent before the node knew", all)
		}
		j.world.heal(1)
		time.Sleep(onTheWay) //nolint:forbidigo // virtual time
		mustFind(t, observe(got("x", 2, "a"), got("x", 1, "a")), "NotBack")
	})
}

// TestJudgeLateExcuses: what a node takes over from one whose connection to the control plane has stalled
// is excused for a while after that, and also later where it reaches the clients of the node late.
func TestJudgeLateExcuses(t *testing.T) {
	for name, slowLater := range map[string]bool{"slow meanwhile": false, "slow later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, _ := forged(t, false)
				c := check.Contradiction{Guarantee: "Ordered", Event: record.Event{Node: "n0"}}
				excused := func(when string, want bool) {
					t.Helper()
					j.look()
					if got := j.excuses(c); got != want {
						t.Errorf("%s: excused: %t", when, got)
					}
				}
				pass := func(d time.Duration) {
					time.Sleep(d) //nolint:forbidigo // virtual time
					j.look()
				}
				slow := both("n0", clientsHost, xdstest.Way{Stalled: true})
				j.world.nodes[1].since = time.Now()
				j.world.trouble(1, both("n1", originHost, xdstest.Way{Stalled: true})...)
				if !slowLater {
					j.world.trouble(2, slow...)
				}
				pass(time.Second)
				excused("while it is stalled", true)
				j.world.heal(1)
				pass(calm)
				if slowLater {
					j.world.trouble(2, slow...)
					pass(time.Second)
				}
				excused("long after that", !slowLater)
				j.world.heal(2)
				pass(onTheWay)
				excused("when all has arrived", false)
			})
		})
	}
}

// TestHiddenHistory: what a resource was while the control plane was away nobody can know, unless
// it is still so when that is back.
func TestHiddenHistory(t *testing.T) {
	var h history
	h.add(1, 0, false)
	h.add(absent, time.Second, true)
	if at := h.find(absent, 1); at >= 0 {
		t.Errorf("found at %d what is hidden", at)
	}
	h.show()
	if at := h.find(absent, 1); at != 2 {
		t.Errorf("found at %d, expected 2", at)
	}
}

// TestJudgeGivenBack: what the removal guard gives back, as it was before it went, is not
// found: what something refers to at any time, and listeners while other nodes hold back that
// more than half of them went.
func TestJudgeGivenBack(t *testing.T) {
	sent := func(e record.Event) record.Event { e.Kind = record.OriginSent; return e }
	acked := func(e record.Event) record.Event { e.Kind = record.OriginAcked; return e }
	listener := func(e record.Event) record.Event { e.Type = xdstest.ListenerType; return e }
	client := func(name string) []record.Event {
		c := came(name)
		c.Wants = map[string][]string{xdstest.ListenerType: nil, xdstest.ClusterType: nil}
		return []record.Event{c, opened(name, "n0"), got(name, 1, "a")}
	}
	removed := func(client string) record.Event {
		return record.Event{Kind: record.ClientGot, Client: client, Key: "k", Type: xdstest.ClusterType, Delta: true, Removed: []string{"a"}}
	}
	served := slices.Concat([]record.Event{has(1, "a"), has(7, "b"), sent(has(1, "a"))}, client("x"), client("y"))
	gone := []record.Event{has(absent, "a"), removed("x"), removed("y")}
	for name, test := range map[string]struct {
		events []record.Event
		is     func(record.Event) record.Event // of which type
		found  bool
		alone  bool // without the guard
		stalls bool // the connection of the node to the control plane had stalled
	}{
		"as it was":            {events: slices.Concat(served, gone)},
		"without the guard":    {events: slices.Concat(served, gone), alone: true, found: true},
		"older":                {events: slices.Concat(served, []record.Event{has(2, "a"), sent(has(2, "a")), acked(has(2, "a"))}, gone), found: true},
		"newer elsewhere":      {events: slices.Concat(served, []record.Event{has(2, "a"), sent(has(2, "a")), acked(has(2, "a"))}, gone), stalls: true},
		"newer did not arrive": {events: slices.Concat(served, []record.Event{acked(has(1, "a")), has(2, "a"), sent(has(2, "a"))}, gone)},
		"newer was never sent": {events: slices.Concat(served, []record.Event{has(2, "a")}, gone)},
		"a listener":           {events: slices.Concat(served, gone), is: listener, found: true},
		"all listeners":        {events: slices.Concat(served, []record.Event{has(absent, "b")}, gone), is: listener},
	} {
		t.Run(name, func(t *testing.T) {
			j, observe := forged(t, !test.alone)
			if test.stalls {
				j.stalled["n0"] = time.Now()
			}
			var all []check.Contradiction
			for _, e := range append(test.events, got("x", 1, "a")) {
				if test.is != nil {
					e = test.is(e)
				}
				all = append(all, observe(e)...) // at one time
			}
			all = slices.DeleteFunc(all, func(c check.Contradiction) bool { return c.Guarantee == "Guard" })
			if test.found {
				mustFind(t, all, "NotBack")
			} else if len(all) > 0 {
				t.Errorf("found %v", all)
			}
			if test.is == nil || test.found {
				return
			}
			c, late := j.clients["x"], test.is(got("x", 1, "a"))
			late.At = guardHold
			id := resourceID{"k", late.Type, "a"}
			c.past[id] = 2
			mustFind(t, j.observe(&late), "NotBack") // the hold is over

			// Unless a node has started since, and has asked the control plane.
			asked := record.Event{Kind: record.OriginOpen, Key: "k", At: guardHold / 2}
			j.observe(&asked)
			c.past[id] = 2
			mustFind(t, j.observe(&late), "NotBack")
			j.world.nodes[1].since = time.Now().Add(time.Second)
			c.past[id] = 2
			if wrong := j.observe(&late); len(wrong) > 0 {
				t.Errorf("found %v", wrong)
			}
			late.At += guardHold / 2
			c.past[id] = 2
			mustFind(t, j.observe(&late), "NotBack")
		})
	}
}

// TestJudgeChildrenOfNobody: endpoints that no node has any more cannot be kept: all nodes with clients
// that asked for them were killed, and there are no records.
func TestJudgeChildrenOfNobody(t *testing.T) {
	endpoints := func(e record.Event) record.Event { e.Type = xdstest.EndpointType; return e }
	gone := endpoints(record.Event{Kind: record.ClientGot, Client: "x", Key: "k", Delta: true, Removed: []string{"a"}})
	for name, tc := range map[string]struct {
		why, kept string
		found     bool
	}{
		"killed":              {why: "killed", kept: "none"},
		"ended in order":      {why: "drained", kept: "none", found: true},
		"there are records":   {why: "killed", kept: "directory", found: true},
		"it was only cut off": {why: cutOffWhy, kept: "none", found: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, true)
				j.world.plan.Kept = tc.kept
				now := func(all ...record.Event) {
					for _, e := range all {
						e.At = j.world.to.Since()
						j.observe(&e)
					}
				}
				observe(has(1, "a"), endpoints(has(2, "a")), came("x"), opened("x", "n0"), got("x", 1, "a"), endpoints(got("x", 2, "a")))
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				j.look()
				time.Sleep(time.Second) //nolint:forbidigo // virtual time
				now(has(0, "a"), endpoints(has(0, "a")))
				time.Sleep(time.Second) //nolint:forbidigo // virtual time
				now(record.Event{Kind: record.NodeDown, Node: "n0", Why: tc.why}, record.Event{Kind: record.ClientEnd, Client: "x"}, opened("x", "n1"), gone)
				time.Sleep(orphanedFor) //nolint:forbidigo // virtual time
				if all := j.look(); (len(all) > 0) != tc.found {
					t.Errorf("found %v, expected any: %t", all, tc.found)
				}
			})
		})
	}
}

// TestJudgeChildren: endpoints that go before their cluster, which the guard holds back,
// are found, also shortly before the control plane has lost the cluster, and clusters that go
// though it holds them back. While the network of the client is slow, the removal of the
// cluster may be on its way.
func TestJudgeChildren(t *testing.T) {
	endpoints := func(e record.Event) record.Event { e.Type = xdstest.EndpointType; return e }
	start := []record.Event{
		has(1, "a"), endpoints(has(2, "a")), came("x"), opened("x", "n0"), got("x", 1, "a"), endpoints(got("x", 2, "a")),
		has(0, "a"), endpoints(has(0, "a")),
	}
	gone := endpoints(record.Event{Kind: record.ClientGot, Client: "x", Key: "k", Delta: true, Removed: []string{"a"}})
	first := record.Event{Kind: record.ClientGot, Client: "x", Key: "k", Type: xdstest.ClusterType, Delta: true, Removed: []string{"a"}}
	synctest.Test(t, func(t *testing.T) {
		j, observe := forged(t, true)
		if all := observe(append(start, gone)...); len(all) > 0 {
			t.Errorf("found %v at once", all)
		}
		time.Sleep(orphanedFor) //nolint:forbidigo // virtual time
		mustFind(t, j.look(), "Children")

		for _, long := range []bool{false, true} {
			j, observe = forged(t, true)
			observe(append(start[:6:6], endpoints(has(0, "a")), gone)...)
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			if all := j.look(); len(all) > 0 {
				t.Errorf("found %v while the control plane has the cluster", all)
			}
			if long {
				time.Sleep(shortlyBefore) //nolint:forbidigo // virtual time
			}
			lost := has(0, "a")
			lost.At = j.world.to.Since()
			j.observe(&lost)
			time.Sleep(orphanedFor) //nolint:forbidigo // virtual time
			switch all := j.look(); {
			case !long:
				mustFind(t, all, "Children")
			case len(all) > 0:
				t.Errorf("found %v long after the endpoints had gone", all)
			}
		}

		j, observe = forged(t, true)
		j.world.trouble(1, both("n0", clientsHost, xdstest.Way{Delay: time.Second})...)
		all := observe(append(start, gone)...)
		time.Sleep(2 * orphanedFor) //nolint:forbidigo // virtual time
		if all = append(all, j.look()...); len(all) > 0 {
			t.Errorf("found %v of a client whose network is slow", all)
		}
		j.world.heal(1)
		time.Sleep(onTheWay) //nolint:forbidigo // virtual time
		mustFind(t, j.look(), "Children")

		j, observe = forged(t, true)
		observe(append(start[:6:6], endpoints(has(0, "a")), gone)...)
		j.world.originBy[1] = true // the control plane is away
		lost := has(0, "a")
		lost.At = j.world.to.Since()
		j.observe(&lost)
		time.Sleep(2 * orphanedFor) //nolint:forbidigo // virtual time
		if all := j.look(); len(all) > 0 {
			t.Errorf("found %v, though nobody can know that the cluster has gone", all)
		}
		delete(j.world.originBy, 1)
		j.histories[resourceID{"k", xdstest.ClusterType, "a"}].show()
		time.Sleep(2 * orphanedFor) //nolint:forbidigo // virtual time
		mustFind(t, j.look(), "Children")

		j, observe = forged(t, false)
		if all := observe(append(start, first, gone)...); len(all) > 0 {
			t.Errorf("found %v", all)
		}
		time.Sleep(orphanedFor) //nolint:forbidigo // virtual time
		if all := j.look(); len(all) > 0 {
			t.Errorf("found %v without the guard", all)
		}
	})
	_, observe := forged(t, true)
	mustFind(t, observe(append(start, first)...), "Guard")
}
