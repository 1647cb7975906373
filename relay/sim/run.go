package sim

import (
	"fmt"
	"strings"
	"time"

	"xdsrelay/relay/robust/record"
)

// Result is what a run of a plan showed.
type Result struct {
	// Found are the guarantees that did not hold, in sentences; none means that all did.
	Found []string
	// First is the name of the first of them.
	First string
	// Detail is what was recorded before it.
	Detail string
	// Simulated is how much time passed in the run.
	Simulated time.Duration
	// Counts are figures of the run.
	Counts Counts
}

// Counts are figures of runs.
type Counts struct {
	Messages int // that clients got
	Streams  int // of clients
	Excused  int // older content that a node could not know to be old
}

// Run runs a plan. It is called in a bubble of [testing/synctest] that it has for itself,
// in which no goroutine of it is left at the end.
func Run(plan Plan, cfg Config) (r Result) {
	began := time.Now()
	t := &scene{}
	defer func() {
		t.end()
		r.Simulated = time.Since(began)
	}()
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case fatal:
			r.Found, r.First = append(r.Found, "World: "+string(failed)), "World"
		default: // a fault of the simulation, which is no result of the plan
			panic(failed)
		}
	}()
	w := newWorld(t, plan, cfg)
	t.Cleanup(w.stop)
	w.play()
	w.finish()
	r.Counts = w.judge.counts
	for _, c := range w.found {
		r.Found = append(r.Found, c.String())
	}
	if len(w.found) > 0 {
		r.First, r.Detail = w.found[0].Guarantee, w.explain(w.found[0], 60)
	}
	for _, text := range t.errors {
		r.Found = append(r.Found, "World: "+text)
		if r.First == "" {
			r.First = "World"
		}
	}
	return r
}

// play lets the events of the plan happen.
func (w *World) play() {
	w.begun = time.Now()
	for i, e := range w.plan.Events {
		a := acts[e.Do]
		w.later(e.At, func() {
			w.to.Add(record.Event{Kind: record.Fault, Why: e.String()})
			w.judge.part(e.hosts()...)
			a.begin(w, i, e)
		})
		if a.end != nil {
			w.later(w.plan.endOf(e), func() {
				w.to.Add(record.Event{Kind: record.Healed, Why: e.String()})
				w.judge.part(e.hosts()...)
				a.end(w, i, e)
			})
		}
	}
	w.sleep(w.plan.Length)
	for len(w.agenda) > 0 && len(w.found) == 0 { // what events have begun is finished
		w.sleep(tick)
	}
	if w.plan.Guard { // what is held back shows what it is worth when the hold ends
		w.sleep(guardHold)
	}
}

// finish waits for the rest, and for the end of all that clients were the reason for.
func (w *World) finish() {
	if len(w.found) > 0 {
		return
	}
	w.retryHeld()
	w.rest()
	if len(w.found) > 0 {
		return
	}
	for _, c := range w.fleet.clients {
		for _, v := range c.Violations() {
			w.contradict("Protocol", fmt.Sprintf("client %s: %s", c.name, v))
		}
	}
	for _, p := range w.fleet.pollers {
		for _, v := range p.violations() {
			w.contradict("Protocol", fmt.Sprintf("client %s: %s", p.name, v))
		}
	}
	w.fleet.leave("")
	w.fleet.close()
	w.judge.afterClients()
}

// stop ends all that runs.
func (w *World) stop() {
	if w.fleet != nil {
		w.fleet.close()
	}
	for _, n := range w.nodes {
		if n.relay != nil {
			n.drain(-1)
		}
	}
	for w.draining() {
		time.Sleep(tick) //nolint:forbidigo // virtual time
	}
	for _, n := range w.nodes {
		if n.host != nil {
			n.host.Vanish(true)
		}
	}
	w.redis.close()
	// The client of Redis looks once a second whether its pool is closed.
	time.Sleep(3 * time.Second) //nolint:forbidigo // virtual time
}

// fatal is what ends a scene at once.
type fatal string

// scene is what the parts of a world need of a test. It belongs to one goroutine.
type scene struct {
	errors   []string
	cleanups []func()
}

// Helper implements xdstest.TB.
func (s *scene) Helper() {}

// Cleanup implements xdstest.TB.
func (s *scene) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Logf implements xdstest.TB.
func (s *scene) Logf(string, ...any) {}

// Errorf implements xdstest.TB.
func (s *scene) Errorf(format string, args ...any) {
	s.errors = append(s.errors, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf implements xdstest.TB.
func (s *scene) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

func (s *scene) end() {
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		last()
	}
}
