package sim

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/xdstest"
)

// TestClock: a clock can be turned forward and back, and a process reads no time while any event
// stops it.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.turn(time.Minute)
		c.turn(-10 * time.Second)
		if got := c.now(); !got.Equal(time.Now().Add(50*time.Second)) || got.String() != got.Round(0).String() {
			t.Errorf("it is %v", got)
		}
		began := time.Now()
		c.stop(1)
		c.stop(2)
		read := make(chan time.Time)
		go func() { read <- c.now() }()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		c.resume(1)
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		c.resume(2)
		if got := <-read; !got.Equal(began.Add(52 * time.Second)) {
			t.Errorf("it was read at %v", got)
		}
		c.stop(3)
		c.replaced()
		c.resume(3)
		c.now()
	})
}

// TestJudgeClocks: each node names all nodes whose clocks are wrong, in the right direction and by
// how much, and no other.
func TestJudgeClocks(t *testing.T) {
	const (
		right  = "The clock of node n0 is 1m0s ahead of node n1 (for 3s)"
		less   = "The clock of node n0 is 59s ahead of node n1"
		behind = "The clock of node n0 is 1m0s behind node n1"
		other  = "The clock of node n1 is 9s behind node n0"
	)
	for said, want := range map[string]int{right: 0, less: 0, "": 1, behind: 1, right + "\n" + other: 1, other: 2} {
		synctest.Test(t, func(t *testing.T) {
			j, _ := forged(t, false)
			c := clocks{world: j.world}
			j.world.nodes[0].clock.turn(time.Minute)
			c.compare(j.world.nodes[1], said)
			if len(j.world.found) != want {
				t.Errorf("%q: %v, expected %d", said, j.world.found, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		j, _ := forged(t, false)
		w := j.world
		w.nodes = append(w.nodes, &node{world: w, name: "n2", relay: new(relay.Node)}, &node{world: w, name: "n3"})
		for i, ahead := range []time.Duration{0, mostSkew, -3 * time.Second, time.Hour} { // the last one does not run
			w.nodes[i].clock.turn(ahead)
		}
		c := clocks{world: w}
		if wrong := c.wrong(); !maps.Equal(wrong, map[string]time.Duration{"n2": -3 * time.Second}) {
			t.Errorf("wrong: %v", wrong)
		}
	})
}

// TestNegativeAge: a time below zero is found in a page, and a dash is none.
func TestNegativeAge(t *testing.T) {
	for page, want := range map[string]string{
		"NODE  FOR\nn0    3s\n": "", "n-1  -  3s": "", "NODE  FOR\nn0    -3s  x\n": "-3s", "-1m0s": "-1m0s",
	} {
		if got := negativeAge(page); got != want {
			t.Errorf("%q: %q, expected %q", page, got, want)
		}
	}
}

// TestClocksInARun: all nodes report a clock that is wrong, and that it is right again; and a process
// that was stopped notices, as does one whose clock was set forward, which it can tell apart.
func TestClocksInARun(t *testing.T) {
	plan, err := Parse(`seed=9 nodes=3 keys=1 clients=4 size=3 sotw=false guard=false kept=redis length=80s
5s 30s clock n0 120
20s 0s change key0 3
50s 20s sleep n2
60s 0s change key0 3
`)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if r := once(t, Config{Token: tokenFile(t), Log: &log}, plan); len(r.Found) > 0 {
		t.Fatalf("%q\n%s", r.Found, r.Detail)
	}
	for what, least := range map[string]int{
		"member=n0 differs_from=n2 ahead=2m0s":     3,
		"the clock of a node no longer differs":    3,
		"this process was suspended, or its clock": 1,
		"the clock of this node was set forward":   1,
	} {
		if n := strings.Count(log.String(), what); n < least {
			t.Errorf("%q: %d times, expected %d", what, n, least)
		}
	}
}

// TestJudgeWoken: a node that has just run again after it was stopped sends a client that connects no
// older content than that has. Before, and once it has had the time to ask, another validator judges.
func TestJudgeWoken(t *testing.T) {
	for name, test := range map[string]struct {
		slept, later time.Duration
		stalled      string // the node whose connection to the control plane is
		wrong        int
	}{
		"just now":                    {slept: 10 * time.Second, wrong: 1},
		"its own stream has stalled":  {slept: 10 * time.Second, stalled: "n0", wrong: 1},
		"that of the owner, perhaps":  {slept: 10 * time.Second, stalled: "n1"},
		"it has had the time":         {slept: 10 * time.Second, later: time.Second},
		"it was stopped for a moment": {slept: time.Second},
		"the process is a new one":    {slept: -10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, observe := forged(t, false)
				c := newClocks(j.world)
				observe(has(1, "a"), has(2, "a"), came("c"), opened("c", "n1"), got("c", 2, "a"))
				n := &j.world.nodes[0].clock
				n.stop(1)
				time.Sleep(test.slept.Abs()) //nolint:forbidigo // virtual time
				if test.slept < 0 {
					n.replaced()
				}
				n.resume(1)
				if test.stalled != "" {
					j.world.trouble(2, trouble{originHost, test.stalled, xdstest.Way{Stalled: true}})
				}
				connects := opened("c", "n0")
				connects.At = j.world.to.Since()
				c.observe(&connects)
				observe(connects)
				time.Sleep(test.later) //nolint:forbidigo // virtual time
				older, same := got("c", 1, "a"), got("c", 2, "a")
				older.Node, same.Node = "n0", "n0"
				older.At, same.At = j.world.to.Since(), j.world.to.Since()
				if found := c.observe(&same); len(found) > 0 {
					t.Errorf("the same content: %v", found)
				}
				if found := c.observe(&older); len(found) != test.wrong {
					t.Errorf("older content: %v, expected %d", found, test.wrong)
				}
			})
		})
	}
}
