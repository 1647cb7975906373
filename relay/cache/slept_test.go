package cache

import (
	"testing"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/resource"
)

// TestSlept: from the moment at which a beat is late, and after the process woke up, no client is
// served content that may be old until the control plane has answered, other nodes were asked if it
// is unreachable, or the hold time has passed (K12).
func TestSlept(t *testing.T) {
	for name, end := range map[string]func(*world){
		"the origin answers": func(w *world) { w.apply(clusters, res("a", "1")) },
		"it is out of reach, and others were asked": func(w *world) {
			w.feed.Down(errOut)
			w.feed.Compared()
		},
		"the hold time passes": func(*world) { pass(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				if c.head().Held {
					t.Error("held without a beat ever")
				}
				w.cache.Beat(2 * time.Second)
				pass(2 * time.Second)
				if c.head().Held {
					t.Error("held while beats are in time")
				}
				began := time.Now()
				pass(time.Minute)
				if !c.head().Held {
					t.Error("served before anybody knows what has become of it")
				}
				w.cache.Slept(began)
				w.cache.Beat(2 * time.Second)
				if d, _ := c.table.Doubtful(""); !c.head().Held || !d {
					t.Errorf("held %t, doubtful %t", c.head().Held, d)
				}
				if asOf := w.group.Snapshots()[0].AsOf; !asOf.Equal(began) {
					t.Errorf("it is passed on as of %s after that", asOf.Sub(began))
				}
				pass(time.Second / 2)
				if name == "it is out of reach, and others were asked" {
					w.feed.Down(errOut)
				}
				if !c.head().Held {
					t.Error("not held any more")
				}
				end(w)
				if c.head().Held {
					t.Error("still held")
				}
				expectSees(t, c, "a")
			})
		})
	}
}

// TestSleptWhileCutOff: that the control plane could not be reached before the process slept does not show that
// it cannot be now. Clients wait for an attempt, or until the hold time has passed; then for nothing more.
func TestSleptWhileCutOff(t *testing.T) {
	for name, end := range map[string]func(*world){
		"an attempt fails":     func(w *world) { w.feed.Down(errOut) },
		"the hold time passes": func(*world) { pass(time.Second / 2) },
		"the origin answers": func(w *world) {
			w.feed.Up()
			w.apply(clusters, res("a", "1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.feed.AwaitOthers()
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				w.feed.Down(errOut)
				w.feed.Compared()
				pass(time.Minute)
				if c.head().Held {
					t.Error("held during an outage")
				}
				w.cache.Slept(time.Now().Add(-10 * time.Second))
				w.feed.Compared() // there are no other nodes, as far as this one knows
				pass(time.Second / 2)
				if !c.head().Held {
					t.Error("served as if the control plane could not be reached")
				}
				end(w)
				pass(time.Millisecond)
				if c.head().Held {
					t.Error("still held")
				}
				expectSees(t, c, "a")
				if name != "the origin answers" && c.table.awaits(0) {
					t.Error("clients still wait for an answer")
				}
			})
		})
	}
}

// TestSleptAndSilent: a control plane that is still connected after the process slept, and has nothing
// new, sends nothing. Its silence confirms the content after a minute, so that a client that returns
// is informed of what is gone (K14, B37). A stream that ended meanwhile confirms nothing.
func TestSleptAndSilent(t *testing.T) {
	for name, confirmed := range map[string]bool{"still connected": true, "connected again": false, "slept again": false} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"), res("b", "1"))
				w.remove(clusters, "b")
				pass(time.Minute)
				w.cache.Slept(time.Now().Add(-time.Minute))
				if name == "connected again" {
					w.feed.Down(errOut)
					w.feed.Up()
					w.feed.Doubt()
				}
				gone := func() (names []string) {
					if n, _, _ := c.table.Gone(&c.w, nil, []resource.Held{{Name: "b", Version: "1"}}); n != nil {
						names = n.List
					}
					return names
				}
				pass(stayedUp - time.Second)
				if name == "slept again" {
					w.cache.Slept(time.Now().Add(-time.Second))
				}
				if got := gone(); len(got) > 0 {
					t.Errorf("%q are gone before that is known", got)
				}
				pass(2 * time.Second)
				if got := gone(); (len(got) == 1) != confirmed {
					t.Errorf("%q are gone, confirmed is %t", got, confirmed)
				}
			})
		})
	}
}

// TestSleptBehindOthers: content from before the process slept yields to what another node received
// meanwhile, and stays if the others have nothing newer.
func TestSleptBehindOthers(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		w.apply(clusters, res("a", "1"))
		began := time.Now()
		pass(time.Minute)
		w.cache.Slept(began)
		w.feed.Down(errOut)
		if n, l := w.feed.Need(); n != NeedNewer || l != LinkDown {
			t.Errorf("need %d over link %d", n, l)
		}
		w.group.Renew([]Snapshot{holds(clusters, true, began.Add(time.Second), res("a", "0"))}) // may not have noticed yet what it missed
		expectSees(t, c, "a")
		if got := string(c.table.entryOf("a").Res.Body); got != "1" {
			t.Errorf("a is %q", got)
		}
		w.group.Renew([]Snapshot{holds(clusters, true, began.Add(30*time.Second), res("a", "2"))})
		if got := string(c.table.entryOf("a").Res.Body); got != "2" {
			t.Errorf("a is %q, expected what another node heard meanwhile", got)
		}
	})
}

// TestSleptWithoutAName: a name that did not exist before the process slept exists if another node
// received it meanwhile, and stays absent if what that node has is no newer. It is not restored for a
// name that no client asks for.
func TestSleptWithoutAName(t *testing.T) {
	for name, tc := range map[string]struct {
		later time.Duration // as of when the other node has the name, after the process began to sleep
		want  []string
	}{
		"received meanwhile": {30 * time.Second, []string{"a", "b"}},
		"from before":        {time.Second, []string{"-b", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				c := w.client(endpoints, false, "a", "b")
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(endpoints, res("a", "1"))
				w.remove(endpoints, "b")
				expectSees(t, c, "-b", "a")
				began := time.Now()
				pass(time.Minute)
				w.cache.Slept(began)
				w.feed.Down(errOut)
				w.group.Renew([]Snapshot{holds(endpoints, false, began.Add(tc.later), res("a", "1"), res("b", "1"), res("c", "1"))})
				expectSees(t, c, tc.want...)
				if e := c.table.entryOf("c"); e != nil {
					t.Errorf("c is there, and no client asks for it: %+v", e)
				}
				w.check()
			})
		})
	}
}

// TestSleptAndStalled: a stream from before the process slept may have stalled, so other nodes are
// asked as if there were none yet, until it answers or its silence counts. Newer content of theirs
// replaces the content, and then the stream has to begin again.
func TestSleptAndStalled(t *testing.T) {
	for name, guard := range map[string]int{"no guard": 0, "removal guard": 50} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second, MaxRemovalPercent: guard}, func(t *testing.T, w *world) {
				w.client(clusters, true)
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				is := func(when string, need Need, link Link) {
					t.Helper()
					if n, l := w.feed.Need(); n != need || l != link {
						t.Errorf("%s: need %d over link %d, expected %d over %d", when, n, l, need, link)
					}
				}
				sleep := func() (began time.Time) {
					began = time.Now()
					pass(time.Minute)
					w.cache.Slept(began)
					return began
				}
				is("before it slept", NeedNothing, LinkUp)
				sleep()
				is("after it slept", NeedNewer, LinkConnecting)
				w.apply(clusters, res("a", "2"))
				is("after an answer", NeedNothing, LinkUp)
				sleep()
				pass(confidence.Silence)
				is("after silence", NeedNothing, LinkUp)
				w.apply(clusters, res("a", "2"))
				began := sleep()
				for len(w.feed.News()) > 0 {
					<-w.feed.News()
				}
				claims := w.feed.Claims(clusters)
				w.group.Renew([]Snapshot{holds(clusters, true, began.Add(30*time.Second), res("a", "2"))})
				if w.feed.Claims(clusters) != claims || len(w.feed.News()) > 0 {
					t.Error("the stream has to begin again, although other nodes have nothing newer")
				}
				w.group.Renew([]Snapshot{holds(clusters, true, began.Add(30*time.Second), res("a", "3"))})
				if w.feed.Claims(clusters) == claims || len(w.feed.News()) == 0 {
					t.Error("the stream goes on, although other content has replaced its own")
				}
				is("after that", NeedNothing, LinkUp)
			})
		})
	}
}

// TestStreamsBeginAgainAfterSleep: messages on the way on a stream to the control plane are from before
// the process ran again, and clients may have newer content from other nodes, also if other nodes
// have no other content than this one. So the stream begins again, and what arrives on the old one
// stores nothing (K12). A stream to the owner goes on.
func TestStreamsBeginAgainAfterSleep(t *testing.T) {
	for name, borrowed := range map[string]bool{"to the control plane": false, "to the owner": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.feed.Borrow(borrowed)
				w.feed.TakeDemand(true, false)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				began := time.Now()
				pass(time.Minute)
				for len(w.feed.News()) > 0 {
					<-w.feed.News()
				}
				before := w.feed.Claims(clusters)
				w.cache.Slept(began)
				if again := len(w.feed.News()) > 0; again == borrowed {
					t.Errorf("the stream begins again: %t", again)
				}
				if _, ok := w.feed.ApplyAnswer(before, Update{Type: clusters, Resources: []*resource.Resource{res("b", "1")}}); ok != borrowed {
					t.Errorf("a message on the old stream is stored: %t", ok)
				}
				if borrowed {
					return
				}
				expectSees(t, c, "a")
				if !c.head().Held {
					t.Error("clients do not wait for the new stream")
				}
				w.apply(clusters, res("c", "1"))
				expectSees(t, c, "a", "c")
				if c.head().Held {
					t.Error("clients wait although the new stream has an answer")
				}
			})
		})
	}
}

// TestComparesSince: clients wait for other nodes to be asked since the feed began, and since the
// process last ran again after it slept.
func TestComparesSince(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		w.client(clusters, true)
		is := func(when string, want time.Time) {
			t.Helper()
			if got := w.feed.ComparesSince(); !got.Equal(want) {
				t.Errorf("%s: since %s, expected %s", when, got, want)
			}
		}
		is("before it may know others", time.Time{})
		w.feed.AwaitOthers()
		is("from then on", time.Now())
		w.feed.Compared()
		is("after these were asked", time.Time{})
		pass(time.Minute)
		w.cache.Slept(time.Now().Add(-time.Second))
		is("after it slept", time.Now())
	})
}

// TestMissedBeat: the next beat wakes the clients that were not served because one was late, even
// if the answer of the control plane arrived after all content was marked as old, and no others.
func TestMissedBeat(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		w.cache.Beat(2 * time.Second)
		began := time.Now()
		pass(3 * time.Second)
		w.cache.Slept(began) // no content may be old yet
		w.apply(clusters, res("a", "1"))
		if !c.head().Held {
			t.Fatal("served while a beat is late")
		}
		w.woke()
		w.nap()
		w.cache.Beat(2 * time.Second)
		if c.head().Held || !w.woke()[c.w.sub] {
			t.Error("the next beat wakes nobody")
		}
		w.nap()
		w.cache.Beat(2 * time.Second)
		if w.woke()[c.w.sub] {
			t.Error("a beat wakes clients although none was late")
		}
	})
}

// TestDoubt: what takes the last beat back counts as a late one, until the next.
func TestDoubt(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		w.apply(clusters, res("a", "1"))
		w.cache.Beat(2 * time.Second)
		w.woke()
		w.nap()
		w.cache.Doubt()
		if !c.head().Held {
			t.Error("served while it is unknown whether the process ran")
		}
		w.cache.Beat(2 * time.Second)
		if c.head().Held || !w.woke()[c.w.sub] {
			t.Error("the next beat wakes nobody")
		}
	})
}
