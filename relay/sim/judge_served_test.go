package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestJudgeServed: a client that gets nothing from a node that could have it is found, at
// the end of its bound.
func TestJudgeServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, observe := forged(t, false)
		if all := observe(has(1, "a"), came("x"), opened("x", "n0"), got("x", 1, "a"), came("y"), opened("y", "n1")); len(all) > 0 {
			t.Fatal(all)
		}
		if holder := j.holder("n1", "k", xdstest.ClusterType); holder != "n0" {
			t.Errorf("%q has it, expected n0", holder)
		}
		j.world.trouble(1, both("n0", "n1", xdstest.Way{Refused: true})...)
		if holder := j.holder("n1", "k", xdstest.ClusterType); holder != "" {
			t.Errorf("%q has it, and cannot be reached", holder)
		}
		for range int((calm+anywhereWithin)/tick) + 1 {
			time.Sleep(tick) //nolint:forbidigo // virtual time
			if all := j.look(); len(all) > 0 {
				if !strings.Contains(all[0].Text, "client y has had no Cluster for 1m0.5s") {
					t.Error(all)
				}
				return
			}
		}
		t.Error("nothing is found")
	})
}

// TestJudgeServedByNobody: a client that waits for an answer of a node which has lost its power, or on a
// connection that has stalled, cannot know, so no other node could serve it.
func TestJudgeServedByNobody(t *testing.T) {
	for name, begin := range map[string]func(j *judge){
		"power": func(j *judge) {
			j.world.trouble(1, both("n0", "n1", xdstest.Way{Refused: true})...)
			j.world.node("n1").relay = nil
		},
		"stall": func(j *judge) {
			j.world.trouble(1, both("n0", "n1", xdstest.Way{Refused: true})...)
			j.world.trouble(2, both(clientsHost, "n1", xdstest.Way{Stalled: true})...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, false)
				if all := observe(has(1, "a"), came("x"), opened("x", "n0"), got("x", 1, "a"), came("y"), opened("y", "n1")); len(all) > 0 {
					t.Fatal(all)
				}
				begin(j)
				for range int((calm+anywhereWithin)/tick) + 1 {
					time.Sleep(tick) //nolint:forbidigo // virtual time
					if all := j.look(); len(all) > 0 {
						t.Fatal(all)
					}
				}
			})
		})
	}
}

// TestJudgeTurnedAway: a client that is sent away without an answer is found if its node has
// something for it, which it has not if the client returned with just that, and quoted a
// version that proves it.
func TestJudgeTurnedAway(t *testing.T) {
	const made = "34920cb00706f8efe4ed4837f9eee735" // a version that a node makes of content
	for name, test := range map[string]struct {
		version string
		delta   bool
		serial  int // what the node has
		found   bool
	}{
		"just that":                         {version: made, serial: 1},
		"something newer":                   {version: made, serial: 2, found: true},
		"a version of the control plane":    {version: "w1", serial: 1, found: true},
		"delta, where equality is answered": {version: made, delta: true, serial: 1, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, false)
				x, had := came("x"), got("x", 1, "a")
				x.Delta, had.Delta, had.Version = test.delta, test.delta, test.version
				all := observe(has(1, "a"), has(2, "a"), x, opened("x", "n0"), had, record.Event{Kind: record.ClientEnd, Client: "x", Own: true},
					came("y"), opened("y", "n1"), got("y", test.serial, "a"), opened("x", "n1"))
				away := j.clients["x"]
				all = append(all, j.withheld(away, away.stream, &record.Event{Kind: record.ClientEnd, Client: "x", Unserved: true}, true)...)
				if test.found {
					mustFind(t, all, "ServedByAll")
				} else if len(all) > 0 {
					t.Errorf("found %v", all)
				}
			})
		})
	}
}

// TestJudgeStreamsOfBefore: a stream that a client still has to a node from before its restart does not
// show what the node has now.
func TestJudgeStreamsOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, observe := forged(t, false)
		if all := observe(has(1, "a"), came("x"), opened("x", "n0"), got("x", 1, "a"), came("y"), opened("y", "n1")); len(all) > 0 {
			t.Fatal(all)
		}
		holder := func() string { return j.holder("n1", "k", xdstest.ClusterType) }
		if got := holder(); got != "n0" {
			t.Errorf("%q has it, expected n0", got)
		}
		j.world.nodes[0].since = time.Now().Add(time.Second)
		if got := holder(); got != "" {
			t.Errorf("%q has it after its restart", got)
		}
	})
}

// TestJudgeTurnedAwayByClaims: a node that knows only that there is nothing leaves a delta client what
// it returned with, so that this is no proof that the node has it.
func TestJudgeTurnedAwayByClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, observe := forged(t, false)
		x, empty := came("x"), got("x", 1, "a")
		x.Delta, empty.Delta, empty.Version, empty.Resources = false, false, "00000000000000000000000000000000", nil
		claimed := got("y", 1, "a")
		claimed.Resources = nil
		all := observe(has(1, "a"), x, opened("x", "n0"), empty, record.Event{Kind: record.ClientEnd, Client: "x", Own: true},
			came("y"), opened("y", "n0"), got("y", 1, "a"), record.Event{Kind: record.ClientEnd, Client: "y", Own: true},
			opened("y", "n1"), claimed, opened("x", "n1"))
		away := func() []check.Contradiction {
			return j.withheld(j.clients["x"], j.clients["x"].stream, &record.Event{Kind: record.ClientEnd, Client: "x", Unserved: true}, true)
		}
		if all = append(all, away()...); len(all) > 0 {
			t.Errorf("found %v", all)
		}
		observe(got("y", 1, "a"))
		mustFind(t, away(), "ServedByAll")
	})
}

// TestJudgeTurnedAwayByName: a node has what it has sent, not what a client returned with
// that got an error of it.
func TestJudgeTurnedAwayByName(t *testing.T) {
	endpoints := func(e record.Event) record.Event { e.Type = xdstest.EndpointType; return e }
	j, observe := forged(t, false)
	unknown := endpoints(got("y", 0, "a"))
	unknown.Resources, unknown.Errors = nil, []string{"a"}
	if all := observe(endpoints(has(1, "a")), came("x"), came("y"), opened("x", "n1"), opened("y", "n0"), endpoints(got("y", 1, "a")),
		record.Event{Kind: record.ClientEnd, Client: "y", Own: true}, opened("y", "n1"), unknown); len(all) > 0 {
		t.Fatal(all)
	}
	away := func(ready bool) []check.Contradiction {
		return j.withheld(j.clients["x"], j.clients["x"].stream, &record.Event{Kind: record.ClientEnd, Client: "x", Unserved: true}, ready)
	}
	if all := away(true); len(all) > 0 {
		t.Errorf("found %v after an error", all)
	}
	observe(endpoints(got("y", 1, "a")))
	mustFind(t, away(true), "ServedByAll")
	if all := away(false); len(all) > 0 {
		t.Errorf("found %v of a node that is not ready", all)
	}
}
