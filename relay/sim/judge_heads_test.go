package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestJudgeHeads: a new owner that got content from the control plane after the one before had
// ended, and before it claimed the key, has replaced the tier head of that one.
func TestJudgeHeads(t *testing.T) {
	for name, test := range map[string]struct {
		early bool           // the content changed before the one before ended
		late  bool           // the client got it after the claim
		wrong func(w *World) // when the key is claimed
		found bool
	}{
		"replaced by nobody":              {found: true},
		"it may come from the one before": {early: true},
		"it came after the claim":         {late: true},
		"the one before is back":          {wrong: func(w *World) { begin(w, "n0") }},
		"the new owner was cut off":       {wrong: func(w *World) { w.trouble(1, both("n1", redisHost, xdstest.Way{Refused: true})...); w.heal(1) }},
		"the control plane is away":       {wrong: func(w *World) { w.originBy[0] = true }},
		"its clock was set forward":       {wrong: func(w *World) { w.node("n1").clock.turn(time.Minute) }},
		"its clock was set back":          {wrong: func(w *World) { w.node("n1").clock.turn(-time.Minute) }, found: true},
		"its process was stopped":         {wrong: func(w *World) { w.node("n1").clock.woke = time.Now() }},
		"it has changed at the control plane": {wrong: func(w *World) {
			changed := has(3, "a")
			changed.At = w.to.Since()
			w.judge.observe(&changed)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, false)
				pass := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time
				change := func() {
					changed := has(2, "a")
					changed.At = j.world.to.Since()
					j.observe(&changed)
				}
				all := observe(has(1, "a"), came("y"), opened("y", "n1"), got("y", 1, "a"))
				pass(calm)
				head := fmt.Sprintf(`1 7 {"version":"v","digest":"d","owner":"n0","at":%d,"signature":"s"}`, time.Now().UnixMilli())
				kept := map[string]string{"epoch": "2", "type/" + xdstest.ClusterType: head}
				pass(calm)
				if test.early {
					change()
				}
				pass(tick)
				end(j.world, "n0", "killed")
				pass(tick)
				if !test.early {
					change()
				}
				if !test.late {
					all = append(all, observe(got("y", 2, "a"))...)
				}
				pass(calm)
				j.claims["k"] = claim{"2", time.Now()}
				if test.late {
					all = append(all, observe(got("y", 2, "a"))...)
				}
				if test.wrong != nil {
					test.wrong(j.world)
				}
				all = append(all, j.replaced("k", kept)...)
				if test.found {
					mustFind(t, all, "Heads")
				} else if len(all) > 0 {
					t.Errorf("found %v", all)
				}
				kept["type/"+xdstest.ClusterType] = "2" + head[1:]
				if all := j.replaced("k", kept); len(all) > 0 {
					t.Errorf("found %v where it was replaced", all)
				}
			})
		})
	}
	for _, text := range []string{"", "1 7", "1 7 {"} {
		if h, ok := readHead(text); ok {
			t.Errorf("%q is read as %+v", text, h)
		}
	}
}

// TestJudgeProven: where all nodes have ended at once after a change whose tier head was
// written, clients that have it are not sent an older record of what they ask for by name.
func TestJudgeProven(t *testing.T) {
	endpoints := func(e record.Event) record.Event { e.Type = xdstest.EndpointType; return e }
	for name, test := range map[string]struct {
		kept   string
		full   bool           // of a full-state type
		soon   bool           // they ended right after the change
		gone   bool           // the change is a removal
		stays  bool           // one of them does not end
		before func(w *World) // when they end
		after  func(w *World) // since they run again
		found  bool
	}{
		"proven":                       {kept: "redis", found: true},
		"records are on disks":         {kept: "directory"},
		"all is asked for":             {kept: "redis", full: true},
		"it has nothing of the type":   {kept: "redis", gone: true},
		"there was no time for a head": {kept: "redis", soon: true},
		"Redis was emptied":            {kept: "redis", after: func(w *World) { w.judge.part(redisHost) }},
		"the node has waited":          {kept: "redis", after: func(*World) { time.Sleep(waitsForHead + tick) }}, //nolint:forbidigo // virtual time
		"one of them goes on":          {kept: "redis", stays: true},
		"one ended long before": {kept: "redis", before: func(w *World) {
			begin(w, "n0")
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			end(w, "n0", "killed")
		}},
		"they could not reach Redis": {kept: "redis", before: func(w *World) {
			begin(w, "n0")
			w.trouble(1, both("n0", redisHost, xdstest.Way{Refused: true})...)
			w.heal(1)
			end(w, "n0", "killed")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, false)
				j.world.plan.Kept = test.kept
				at := func(e record.Event) record.Event {
					if !test.full {
						e = endpoints(e)
					}
					return e
				}
				pass := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time
				pass(2 * calm)
				all := observe(at(has(1, "a")), came("x"), opened("x", "n0"), at(got("x", 1, "a")))
				changed, change := at(has(2, "a")), at(got("x", 2, "a"))
				if test.gone {
					changed.Resources[0].Serial, change.Resources, change.Removed = absent, nil, []string{"a"}
				}
				changed.At = j.world.to.Since()
				all = append(all, j.observe(&changed)...)
				all = append(all, observe(change)...)
				if !test.soon {
					pass(tick)
				}
				for _, n := range j.world.nodes {
					if n.name == "n0" || !test.stays {
						end(j.world, n.name, "killed")
					}
				}
				if test.before != nil {
					test.before(j.world)
				}
				pass(time.Second)
				for _, n := range j.world.nodes {
					if n.relay == nil {
						begin(j.world, n.name)
					}
				}
				all = append(all, observe(record.Event{Kind: record.ClientEnd, Client: "x"}, opened("x", "n0"))...)
				pass(time.Second)
				if test.after != nil {
					test.after(j.world)
				}
				all = append(all, observe(at(got("x", 1, "a")))...)
				if test.found {
					mustFind(t, all, "NotBack")
				} else if len(all) > 0 {
					t.Errorf("found %v", all)
				}
			})
		})
	}
}
