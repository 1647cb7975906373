package sim

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// TestJudgeReady: a node waits for Redis to say which nodes there are, as long as it cannot have
// said so and the node started a moment ago.
func TestJudgeReady(t *testing.T) {
	refused := xdstest.Way{Refused: true}
	for name, test := range map[string]struct {
		wrong func(w *World)
		after time.Duration
		waits bool
	}{
		"Redis is in reach":            {wrong: func(*World) {}, after: tick},
		"it is out of reach":           {wrong: func(w *World) { w.trouble(1, both("n0", redisHost, refused)...) }, after: tick, waits: true},
		"it is down":                   {wrong: func(w *World) { w.redis.host = nil }, after: tick, waits: true},
		"what it says does not arrive": {wrong: func(w *World) { w.trouble(1, trouble{redisHost, "n0", xdstest.Way{Stalled: true}}) }, after: tick, waits: true},
		"it is slow":                   {wrong: func(w *World) { w.trouble(1, both("n0", redisHost, xdstest.Way{Delay: time.Second})...) }, after: tick},
		"the time is over":             {wrong: func(w *World) { w.trouble(1, both("n0", redisHost, refused)...) }, after: config.Default().Tier.OwnerTimeout},
		"it was in reach for a moment": {wrong: func(w *World) {
			w.nodes[0].blind = false
			w.trouble(1, both("n0", redisHost, refused)...)
		}, after: tick},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, _ := forged(t, false)
				n := j.world.nodes[0]
				n.since, n.blind = time.Now(), true
				time.Sleep(tick) //nolint:forbidigo // virtual time
				test.wrong(j.world)
				time.Sleep(test.after) //nolint:forbidigo // virtual time
				j.look()
				if waits := j.waitsForMembers(n, j.reached["n0"]); waits != test.waits {
					t.Errorf("waits: %t, expected %t", waits, test.waits)
				}
			})
		})
	}
}

// TestJudgeOwner: a node that has not reached the control plane since it started should own
// nothing where another node has, and says itself what it owns.
func TestJudgeOwner(t *testing.T) {
	const up = 2 * calm
	for name, test := range map[string]struct {
		before func(w *World) // when the other node runs for long
		after  func(w *World) // when both nodes do
		better string
	}{
		"the control plane is away":          {before: func(w *World) { w.originBy[0] = true }, better: "n1"},
		"it is out of reach of the node":     {before: func(w *World) { w.trouble(1, both("n0", originHost, xdstest.Way{Refused: true})...) }, better: "n1"},
		"it is in reach":                     {before: func(*World) {}},
		"it was in reach for a moment":       {before: func(w *World) { w.originBy[0] = true }, after: func(w *World) { delete(w.originBy, 0) }},
		"the other has not reached it":       {before: func(w *World) { w.originBy[0] = true; delete(w.judge.reached, "n1") }},
		"the other may not have tried again": {before: func(w *World) { w.originBy[0] = true; w.judge.reached["n1"].retries = true }},
		"the other has ended":                {before: func(w *World) { w.originBy[0] = true }, after: func(w *World) { w.nodes[1].relay = nil }},
		"Redis is ill":                       {before: func(w *World) { w.originBy[0] = true }, after: func(w *World) { w.redis.ill = 1 }},
		"the nodes were cut off": {before: func(w *World) { w.originBy[0] = true }, after: func(w *World) {
			w.trouble(2, both("n0", "n1", xdstest.Way{Refused: true})...)
			w.heal(2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, _ := forged(t, false)
				pass := func() {
					for range int(up / tick) {
						time.Sleep(tick) //nolint:forbidigo // virtual time
						j.lookAtReached(tick)
					}
				}
				n := j.world.nodes[0]
				pass()
				test.before(j.world)
				delete(j.reached, "n0")
				j.trouble("n0")
				pass()
				if test.after != nil {
					test.after(j.world)
					j.lookAtReached(tick)
				}
				if better := j.ownsNothing(n, j.reached["n0"]); better != test.better {
					t.Errorf("%q is better, expected %q", better, test.better)
				}
			})
		})
	}

	var page ops.Keys
	at := time.Now()
	if err := json.Unmarshal(fmt.Appendf(nil, `{"keys": [
		{"key": "a", "owner": "n1", "nodes": [{"node": "n0", "state": "owner", "since": %[1]q}]},
		{"key": "b", "owner": "n0", "nodes": [{"node": "n0", "state": "idle", "since": %[1]q}, {"node": "n1", "state": "owner", "since": %[1]q}]},
		{"key": "c", "owner": "n0", "nodes": [{"node": "n0", "state": "owner", "since": %[2]q}]}]}`,
		at.Format(time.RFC3339Nano), at.Add(time.Second).Format(time.RFC3339Nano)), &page); err != nil {
		t.Fatal(err)
	}
	if key, since := ownedBy(&page, "n0"); key != "c" || !since.Equal(at.Add(time.Second)) {
		t.Errorf("owns %q since %v", key, since)
	}
}
