package limit

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crowd simulates a node and clients that all connect at once. The node brings a number of them in
// sync per second. A refused client retries after a pause, as gRPC clients do.
type crowd struct {
	clients int
	rate    float64
	v       Values
}

// outcome is the result for the clients.
type outcome struct {
	refusals int
	took     time.Duration // until all were in sync
	longest  time.Duration // longest wait of an admitted client
}

func (c crowd) run() (o outcome) {
	const step = 100 * time.Millisecond
	var (
		p        pace
		queue    []time.Duration // start times of the streams that are not in sync
		finished uint64
		done     float64
		ceiling  int
		waiting  = map[time.Duration][]int{0: {c.clients, 0}} // time of the attempt → clients, after how many refusals
		start    = time.Unix(1_000_000, 0)
	)
	p.step(start, 0, 0, 0, &c.v)
	for at := time.Duration(0); int(finished) < c.clients && at < time.Hour; at += step {
		if come := waiting[at]; come != nil {
			delete(waiting, at)
			n, tries := come[0], come[1]
			let := n
			if ceiling > 0 {
				let = min(n, max(ceiling-len(queue), 0))
			}
			for range let {
				queue = append(queue, at)
			}
			if left := n - let; left > 0 {
				o.refusals += left
				back := time.Duration(math.Min(math.Pow(1.6, float64(tries)), 120) * float64(time.Second)).Truncate(step)
				for waiting[at+back] != nil {
					back += step
				}
				waiting[at+back] = []int{left, tries + 1}
			}
		}
		done += c.rate * step.Seconds()
		lag := time.Duration(0)
		for ; done >= 1 && len(queue) > 0; done-- {
			o.longest = max(o.longest, at-queue[0])
			queue = queue[1:]
			finished++
		}
		if len(queue) > 0 {
			lag = time.Second
		} else {
			done = 0
		}
		o.took = at + step
		if (at+step)%interval == 0 {
			ceiling = p.step(start.Add(at+step), lag, len(queue), finished, &c.v)
		}
	}
	return o
}

// A burst that the node brings in sync in time is admitted at once, however busy the node is.
func TestNobodyIsRefusedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := crowd{rate: float64(rapid.IntRange(10, 5000).Draw(t, "rate")), v: Values{NewStreams: 1000, SyncWithin: 10 * time.Second}}
		c.clients = rapid.IntRange(1, max(int(c.rate*c.v.SyncWithin.Seconds()), c.v.NewStreams)).Draw(t, "clients")
		if o := c.run(); o.refusals > 0 {
			t.Fatalf("%d refusals of %d clients at %v/s: %+v", o.refusals, c.clients, c.rate, o)
		}
	})
}

// A larger burst is admitted in parts: all clients come in sync in the end, and once the node knows
// its rate no admitted client waits too long.
func TestAllComeIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := crowd{rate: float64(rapid.IntRange(10, 2000).Draw(t, "rate")), v: Values{NewStreams: 10, SyncWithin: 10 * time.Second}}
		c.clients = int(c.rate) * rapid.IntRange(20, 60).Draw(t, "seconds")
		o := c.run()
		if need := time.Duration(float64(c.clients) / c.rate * float64(time.Second)); o.took > 10*need+5*time.Minute {
			t.Fatalf("%d clients at %v/s took %v, where %v are needed: %+v", c.clients, c.rate, o.took, need, o)
		}
	})
}

// The ceiling is what the node brings in sync within the time, at least NewStreams, and unlimited
// while the node is not busy or has been busy only briefly.
func TestCeiling(t *testing.T) {
	v := &Values{NewStreams: 100, SyncWithin: 10 * time.Second}
	var p pace
	now, finished := time.Unix(1000, 0), uint64(0)
	starting := 5000
	step := func(lag time.Duration, more uint64) int {
		now, finished = now.Add(time.Second), finished+more
		return p.step(now, lag, starting, finished, v)
	}
	for range 10 {
		if c := step(0, 50); c != 0 {
			t.Fatalf("a ceiling of %d while the node is not busy", c)
		}
	}
	for i := range 2 {
		if c := step(time.Second, 500); c != 0 {
			t.Fatalf("a ceiling of %d after %d s", c, i)
		}
	}
	for range 30 {
		if c := step(time.Second, 500); c < 4900 || c > 5100 {
			t.Fatalf("a ceiling of %d, at 500/s", c)
		}
	}
	starting = 0
	for range 10 {
		if c := step(0, 10); c != 0 && now.Sub(p.lagged) > calmTime {
			t.Fatalf("a ceiling of %d long after", c)
		}
	}
	starting = 5000
	if c := step(time.Second, 0); c < 3500 || c > 5000 {
		t.Fatalf("a ceiling of %d when the next crowd comes, at 500/s", c)
	}
	last := 0
	for range 60 {
		last = step(time.Second, 0)
	}
	if last != v.NewStreams {
		t.Errorf("a ceiling of %d where nobody comes in sync, want %d", last, v.NewStreams)
	}
	v.NewStreams = 0
	for range 10 {
		if c := step(time.Second, 0); c != 0 {
			t.Fatalf("a ceiling of %d, but there is no limit", c)
		}
	}
}

// A few streams do not determine the rate, however long the node is busy with something else.
func TestFewTeachNothing(t *testing.T) {
	v := &Values{NewStreams: 100, SyncWithin: 10 * time.Second}
	var p pace
	now, finished := time.Unix(1000, 0), uint64(0)
	for range 100 {
		now, finished = now.Add(time.Second), finished+20
		if c := p.step(now, time.Second, 20, finished, v); c != 0 {
			t.Fatalf("a ceiling of %d", c)
		}
	}
	if c := p.step(now.Add(time.Second), time.Second, 5000, finished, v); c != 0 {
		t.Fatalf("a ceiling of %d when a crowd comes", c)
	}
}

// New streams are refused before any client is shed, clients are shed once per garbage collection,
// and never below the limit.
func TestMemory(t *testing.T) {
	var m memory
	now, cycles := time.Unix(1000, 0), uint64(5)
	at := func(percent uint64, collected bool) relief {
		now = now.Add(time.Second)
		if collected {
			cycles++
		}
		return m.step(now, usage{used: percent, limit: 100, cycles: cycles}, 80)
	}
	for _, test := range []struct {
		percent   uint64
		collected bool
		want      relief
	}{
		{50, true, relief{}},
		{79, true, relief{}},
		{80, true, relief{tight: true}},
		{76, true, relief{tight: true}}, // a little less is not enough
		{74, true, relief{}},
		{76, true, relief{}},
		{89, true, relief{tight: true}},
		{90, true, relief{tight: true, shed: true}},
		{95, false, relief{tight: true}}, // the effect is not measured yet
		{95, true, relief{tight: true, shed: true}},
		{89, true, relief{tight: true}},
		{60, true, relief{}},
	} {
		if got := at(test.percent, test.collected); got != test.want {
			t.Errorf("at %d %% (collected %t): %+v, want %+v", test.percent, test.collected, got, test.want)
		}
	}
	collects := 0
	for range 20 {
		if at(85, false).collect {
			collects++
		}
	}
	if collects != 4 {
		t.Errorf("%d collections in 20 s in which there was none, want one in %v", collects, collectPause)
	}
	if r := m.step(now, usage{used: 100}, 80); r != (relief{}) {
		t.Errorf("without a limit: %+v", r)
	}
	if r := m.step(now, usage{used: 100, limit: 100, cycles: 1000}, 0); r != (relief{}) {
		t.Errorf("where it is turned off: %+v", r)
	}
}
