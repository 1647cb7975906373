package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEventsEnd: no event of a plan ends before it begins, though some begin after the plan.
func TestEventsEnd(t *testing.T) {
	late := 0
	for seed := range uint64(2000) {
		p := Draw(seed)
		for _, e := range p.Events {
			if at := p.endOf(e); at < e.At || at > e.End() || at > p.Length && e.At < p.Length {
				t.Fatalf("seed %d of %v: %s ends at %v", seed, p.Length, e, at)
			}
			if e.At > p.Length {
				late++
			}
		}
	}
	if late == 0 {
		t.Error("no event begins after its plan, which this test is about")
	}
}

// TestPlans: a seed has one plan, which its text tells in full; and all acts are drawn.
func TestPlans(t *testing.T) {
	drawn := make(map[string]bool)
	for seed := range uint64(400) {
		draw := Draw
		if seed >= 200 {
			draw = DrawStaged
		}
		p := draw(seed)
		if again := draw(seed); !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d has two plans:\n%s\n%s", seed, p, again)
		}
		read, err := Parse(p.String())
		if err != nil || read.String() != p.String() || len(read.Events) != len(p.Events) {
			t.Fatalf("seed %d: %v\n%s\nis read as\n%s", seed, err, p, read)
		}
		for i, e := range p.Events {
			drawn[e.Do] = true
			if e.At < 0 || e.For < 0 || acts[e.Do].long != (e.For > 0) || i > 0 && e.At < p.Events[i-1].At {
				t.Errorf("seed %d: %s after %v", seed, e, p.Events[max(0, i-1)].At)
			}
		}
	}
	for name, a := range acts {
		if !drawn[name] || a.long != (a.end != nil) {
			t.Errorf("act %q: drawn: %t, long: %t", name, drawn[name], a.long)
		}
	}
}

// TestDrawnApart: plans of some seeds have clocks that are turned and processes that are stopped, and
// those of some have polling clients; other seeds are as they were before there were any. These
// events are in the length of the plan, so that all clocks are right at its end.
func TestDrawnApart(t *testing.T) {
	const all = 1200
	clocks, polls, both := 0, 0, 0
	for seed := range uint64(all) {
		p := Draw(seed)
		turned := 0
		for _, e := range p.Events {
			if e.Do != "clock" && e.Do != "sleep" {
				continue
			}
			turned++
			if e.End() > p.Length {
				t.Errorf("seed %d of %v: %s ends at %v", seed, p.Length, e, e.End())
			}
			if by := e.number(1); e.Do == "clock" && (by > -3 && by < 3 || by < -603 || by > 603) {
				t.Errorf("seed %d: %s", seed, e)
			}
		}
		if (turned > 0) != (seed%clocksEvery == 1) || (p.Polls > 0) != (seed%pollsEvery == 3) {
			t.Errorf("seed %d has %d polling clients, and %d events of clocks", seed, p.Polls, turned)
		}
		if turned > 0 {
			clocks++
		}
		if p.Polls > 0 {
			polls++
		}
		if turned > 0 && p.Polls > 0 {
			both++
		}
	}
	if clocks < all/5 || polls < all/10 || both < all/20 {
		t.Errorf("%d plans with clocks, %d with polls, %d with both", clocks, polls, both)
	}
}

// TestBadPlans: what is no plan is an error that names the line.
func TestBadPlans(t *testing.T) {
	const setup = "seed=1 nodes=1 keys=1 clients=1 size=1 sotw=true guard=true kept=none length=1m\n"
	for text, want := range map[string]string{
		"":                                "expected a line like seed=1",
		"seed=x":                          "line 1: seed=x",
		"seed=1 nods=2":                   "line 1: nods=2: unknown",
		setup + "1s 2s":                   "line 2: \"1s 2s\": expected when",
		setup + "\n# no\n1s 2s nothing n": "line 4: \"1s 2s nothing n\": there is no act",
		setup + "1 2s kill n0":            "line 2: time: missing unit",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

// TestShrink: of a plan that fails for two of its events, these are left, in a world as
// small as it can be; and a run of bad luck does not make it longer.
func TestShrink(t *testing.T) {
	for seed := range uint64(20) {
		p := Draw(seed)
		p.Events = append(p.Events, Event{At: p.Length / 2, For: time.Minute, Do: "cp-down"}, Event{At: p.Length/2 + time.Second, Do: "redis-flush"})
		p.sort()
		tries := 0
		fails := func(p Plan) bool {
			tries++
			has := func(do string) bool { return slices.ContainsFunc(p.Events, func(e Event) bool { return e.Do == do }) }
			return p.Keys >= 1 && has("cp-down") && has("redis-flush") && tries%7 != 0
		}
		short := Shrink(p, fails, func() bool { return tries < 10_000 })
		if len(short.Events) != 2 || short.Nodes != 1 || short.Clients != 1 || short.Keys != 1 || short.Polls != 0 || short.Length >= p.Length {
			t.Errorf("seed %d after %d tries:\n%s", seed, tries, short)
		}
	}
}

// TestNetworkAddsUp: troubles of a pair add up, and each ends by itself.
func TestNetworkAddsUp(t *testing.T) {
	n := newNetwork()
	if !n.fine("n0", "n1") {
		t.Error("a network without troubles is not fine")
	}
	n.begin(1, both("n0", "n1", n.way("", ""))...)
	if !n.fine("n0", "n1") {
		t.Error("no trouble counts as one")
	}
	slow, stalled := n.way("", ""), n.way("", "")
	slow.Delay, stalled.Stalled = time.Second, true
	n.begin(2, both("n0", "n1", slow)...)
	n.begin(3, trouble{"n1", "n0", stalled})
	if w := n.way("n1", "n0"); !w.Stalled || w.Delay != time.Second {
		t.Errorf("the way is %+v", w)
	}
	if w := n.way("n0", "n1"); w.Stalled {
		t.Errorf("the other way is %+v", w)
	}
	n.end(2)
	if w := n.way("n1", "n0"); !w.Stalled || w.Delay != 0 || n.fine("n0", "n1") {
		t.Errorf("the way is %+v", w)
	}
	n.end(3)
	if !n.fine("n0", "n1") || !n.fine("n2", "n2") {
		t.Error("troubles do not end")
	}
}

// TestPanic: a fault of the simulation itself ends the test, and is no plan that passes.
func TestPanic(t *testing.T) {
	plan := Draw(1)
	plan.Events = []Event{{Do: "nothing like that"}}
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("a plan passes that panics")
			}
		}()
		Run(plan, Config{Token: tokenFile(t)})
	})
}

// TestStories: each story is a plan of its own, whose text tells it in full, and it fits into
// the length of the plan.
func TestStories(t *testing.T) {
	for i, story := range stories {
		for seed := range uint64(20) {
			p := Plan{Setup: Draw(seed).Setup}
			story(&p, rand.New(rand.NewPCG(seed, 2)), 20*time.Second)
			p.sort()
			read, err := Parse(p.String())
			if err != nil || len(p.Events) == 0 || read.String() != p.String() {
				t.Fatalf("story %d: %v\n%s\nis read as\n%s", i, err, p, read)
			}
			for _, e := range p.Events {
				if acts[e.Do].long != (e.For > 0) {
					t.Errorf("story %d: %s", i, e)
				}
			}
		}
	}
	for seed := uint64(storyEvery); seed < 100*storyEvery; seed += storyEvery {
		p := Draw(seed)
		for _, e := range p.Events {
			if e.End() > p.Length {
				t.Fatalf("seed %d: %s ends after %v", seed, e, p.Length)
			}
		}
	}
}
