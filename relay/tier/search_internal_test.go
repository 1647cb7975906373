package tier

import (
	"testing"
	"time"

	"xdsrelay/relay/cache"
)

// TestSearch walks through the states of a search: it asks other nodes at once if the origin is known
// to be unreachable, after a moment if the origin may still answer, and never while it answers. It
// asks less and less often while the nodes have no content, but at once when something changes. If
// other nodes have to be asked before the origin, it always asks at once.
func TestSearch(t *testing.T) {
	const (
		nothing, newer, content, first = cache.NeedNothing, cache.NeedNewer, cache.NeedContent, cache.NeedFirst
		connecting, up, down           = cache.LinkConnecting, cache.LinkUp, cache.LinkDown
	)
	type step struct {
		need  cache.Need
		link  cache.Link
		after time.Duration // since the previous step
		hurry string        // what has changed: "demand" or "nodes"
		ask   bool
		all   bool          // all nodes answer
		phase phase         // after the step
		wait  time.Duration // until the next question; 0 for not checked
	}
	for name, steps := range map[string][]step{
		"nothing is lacking": {
			{need: nothing, link: down, phase: idle, wait: never},
			{need: nothing, link: connecting, phase: idle, wait: never},
		},
		"the origin answers": {
			{need: content, link: up, phase: idle, wait: never},
			{need: newer, link: up, phase: idle, wait: never},
			{need: content, link: connecting, phase: patient, wait: patience},
			{need: content, link: up, after: patience / 2, phase: idle, wait: never},
			{need: content, link: connecting, after: time.Minute, phase: patient, wait: patience},
		},
		"it is slow": {
			{need: content, link: connecting, phase: patient, wait: patience},
			{need: content, link: connecting, after: patience, ask: true, all: true, phase: asked, wait: firstRetry},
		},
		"others are asked before it": {
			{need: first, link: connecting, ask: true, all: true, phase: asked},
			{need: content, link: connecting, phase: asked, wait: firstRetry},
			{need: content, link: up, phase: idle, wait: never},
			{need: first, link: up, ask: true, phase: asked},
			{need: nothing, link: up, phase: idle, wait: never},
			{need: first, link: down, ask: true, all: true, phase: asked},
		},
		"it turns out to be out of reach": {
			{need: content, link: connecting, phase: patient},
			{need: content, link: down, after: patience / 3, ask: true, all: true, phase: asked},
		},
		"it is out of reach": {
			{need: newer, link: down, ask: true, all: true, phase: asked, wait: never},
			{need: newer, link: down, after: time.Hour, hurry: "demand", phase: asked},
			{need: newer, link: down, hurry: "nodes", ask: true, all: true, phase: asked, wait: never},
			{need: content, link: down, hurry: "demand", after: time.Second, ask: true, all: true, phase: asked, wait: firstRetry},
			{need: content, link: down, after: firstRetry, ask: true, all: true, phase: asked, wait: 2 * firstRetry},
			{need: content, link: down, after: 2 * firstRetry, ask: true, all: true, phase: asked, wait: 4 * firstRetry},
			{need: content, link: down, after: soonest / 2, hurry: "nodes", phase: asked, wait: soonest / 2},
			{need: content, link: down, after: soonest / 2, ask: true, phase: asked, wait: firstRetry},
			{need: content, link: down, after: firstRetry, ask: true, phase: asked, wait: firstRetry},
			{need: nothing, link: down, phase: idle, wait: never},
			{need: content, link: down, phase: patient, wait: soonest},
			{need: content, link: down, after: soonest, ask: true, all: true, phase: asked},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s search
			now := time.Unix(1000, 0)
			for i, st := range steps {
				now = now.Add(st.after)
				if st.hurry != "" {
					s.hurry(st.need, st.hurry == "nodes")
				}
				ask, wait := s.step(st.need, st.link, now)
				if ask {
					s.done(st.need, st.all, now, now)
					wait = s.next.Sub(now)
				}
				if ask != st.ask || s.phase != st.phase || st.wait > 0 && wait != st.wait {
					t.Fatalf("step %d: ask %t in phase %d, and then after %s; expected %t, %d, %s", i, ask, s.phase, wait, st.ask, st.phase, st.wait)
				}
			}
		})
	}
}

// TestReachedAll lists when content counts as compared with that of all other nodes, so that clients
// need not wait any longer.
func TestReachedAll(t *testing.T) {
	const lease = 10 * time.Second
	now := time.Now()
	for name, c := range map[string]struct {
		silent []string
		heard  time.Duration // ago
		want   bool
	}{
		"all have answered":                     {want: true},
		"the members were heard of a lease ago": {heard: lease, want: true},
		"one has not answered":                  {silent: []string{"b"}},
		"nothing was heard of the members":      {heard: lease + time.Second},
	} {
		if got := reachedAll(c.silent, now.Add(-c.heard), lease, now); got != c.want {
			t.Errorf("%s: %t, expected %t", name, got, c.want)
		}
	}
}

// TestSearchAfterSleep: what a search has come to before the process slept does not count after it.
// The other nodes are asked at once, although all had answered that they have nothing newer, and
// clients do not stop waiting because a round from before has ended.
func TestSearchAfterSleep(t *testing.T) {
	began := time.Now()
	woke := began.Add(firstRetry / 2)
	for name, complete := range map[string]bool{"all have answered": true, "some are silent": false} {
		t.Run(name, func(t *testing.T) {
			var s search
			s.done(cache.NeedNewer, complete, began, began)
			s.reached(complete, began)
			s.compares(began) // clients began to wait before the round
			if ask, _ := s.step(cache.NeedNewer, cache.LinkDown, woke); ask {
				t.Error("asks again before the process slept")
			}
			s.compares(time.Time{})
			s.compares(woke)
			if yes, wait := s.settles(began.Add(firstRetry)); yes || wait != never {
				t.Errorf("a round from before it slept ends the wait: %t, %s", yes, wait)
			}
			if ask, wait := s.step(cache.NeedNewer, cache.LinkDown, woke); !ask {
				t.Errorf("does not ask, but waits for %s", wait)
			}
			s.done(cache.NeedNewer, complete, woke, woke)
			s.reached(complete, woke)
			s.compares(woke)
			if ask, _ := s.step(cache.NeedNewer, cache.LinkDown, woke); ask {
				t.Error("asks again although a round began after it slept")
			}
			if yes, _ := s.settles(woke.Add(firstRetry)); yes == complete {
				t.Errorf("the wait is over: %t", yes)
			}
		})
	}
}

// TestSettle holds that clients wait for nodes that have not answered, for a second from the first
// round on, however often these are asked again.
func TestSettle(t *testing.T) {
	var s search
	began := time.Now()
	if yes, wait := s.settles(began); yes || wait != never {
		t.Errorf("before a round: %t, %s", yes, wait)
	}
	s.reached(false, began)
	s.reached(false, began.Add(firstRetry/2))
	s.step(cache.NeedNothing, cache.LinkDown, began)
	if yes, wait := s.settles(began.Add(firstRetry / 2)); yes || wait != firstRetry/2 {
		t.Errorf("after half the time: %t, %s", yes, wait)
	}
	if yes, _ := s.settles(began.Add(firstRetry)); !yes {
		t.Error("clients still wait when the time is over")
	}
	if yes, wait := s.settles(began.Add(2 * firstRetry)); yes || wait != never {
		t.Errorf("later: %t, %s", yes, wait)
	}
	s.reached(false, began)
	s.reached(true, began)
	if yes, wait := s.settles(began.Add(firstRetry)); yes || wait != never {
		t.Errorf("after a complete round: %t, %s", yes, wait)
	}
}
