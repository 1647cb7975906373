package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
)

// headWait is how long tables of these tests count as behind.
const headWait = 5 * time.Second

// headOf is the head that a node would write for a type.
func (w *world) headOf(typ *resource.Type) TierHead {
	e := w.group.Table(typ).Digest()
	return TierHead{Digest: e.Digest, Version: e.Version}
}

// TestBehind: a table is behind a head that it has not reached, for a bounded time after the head
// arrived, and not behind one that it has passed (K12).
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ahead := start(t, Config{HeadWait: headWait}), start(t, Config{})
		c := w.client(clusters, true)
		ahead.client(clusters, true)
		is := func(what string, want bool) {
			t.Helper()
			if until := c.head().Behind.Until; !until.IsZero() != want {
				t.Fatalf("%s: behind until %v", what, until)
			}
		}
		var heads []TierHead
		for i := range 4 {
			ahead.apply(clusters, res("a", fmt.Sprint(i)))
			heads = append(heads, ahead.headOf(clusters))
		}
		step := func(i int) { w.apply(clusters, res("a", fmt.Sprint(i))) }

		step(0)
		is("no head", false)
		w.group.ObserveHead(clusters, heads[0])
		is("at the head", false)
		w.group.ObserveHead(clusters, heads[2])
		is("two behind", true)
		if until := c.head().Behind.Until; until != time.Now().Add(headWait) {
			t.Fatalf("behind until %v", until)
		}
		<-time.After(time.Second)
		w.group.ObserveHead(clusters, heads[2])
		if until := c.head().Behind.Until; until != time.Now().Add(headWait-time.Second) {
			t.Fatalf("the same head again: behind until %v", until)
		}
		step(1)
		is("one behind", true)
		step(2)
		is("caught up", false)
		step(3)
		is("ahead: the head is what there was", false)
		w.group.ObserveHead(clusters, heads[3])
		is("at the head once more", false)
		w.group.ObserveHead(clusters, heads[1])
		is("the origin went back, and the tier has it", true)
		step(1)
		is("went back, too", false)
		own := heads[0]
		own.Own = true
		w.group.ObserveHead(clusters, own)
		is("of this node", false)
	})
}

// TestBehindWhereThereWasNothing: K12: a table that was empty according to its owner is not behind
// that head when it has something again. Before the first answer a table is empty as well, which
// proves nothing.
func TestBehindWhereThereWasNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(w *world)
		behind bool
	}{
		"all was removed":            {func(w *world) { w.answer(clusters, res("a", "1")); w.remove(clusters, "a") }, false},
		"the first answer was empty": {func(w *world) { w.answer(clusters) }, false},
		"there was no answer":        {func(*world) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{HeadWait: headWait}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				tc.before(w)
				w.group.ObserveHead(clusters, w.headOf(clusters))
				w.answer(clusters, res("a", "2"))
				if until := c.head().Behind.Until; until.IsZero() == tc.behind {
					t.Errorf("behind until %v", until)
				}
			})
		})
	}
}

// TestBehindVersions: the table knows the versions of the last few heads that it has not reached.
func TestBehindVersions(t *testing.T) {
	w, ahead := start(t, Config{HeadWait: headWait}), start(t, Config{})
	w.client(clusters, true)
	ahead.client(clusters, true)
	w.apply(clusters, res("a", "0"))
	table := w.group.Table(clusters)
	var heads []TierHead
	for i := range 2 * tierhead.VersionsKept {
		ahead.apply(clusters, res("a", fmt.Sprint(i)))
		heads = append(heads, ahead.headOf(clusters))
		w.group.ObserveHead(clusters, heads[i])
		for back, h := range heads {
			if want := back > 0 && back > i-tierhead.VersionsKept; table.Ahead(h.Version) != want {
				t.Fatalf("head %d of %d: ahead %t", back, i, !want)
			}
		}
	}
	w.apply(clusters, res("a", fmt.Sprint(len(heads)-1)))
	for _, h := range heads {
		if table.Ahead(h.Version) {
			t.Fatal("the table is at the head, and a version is ahead of it")
		}
	}
}

// TestBehindWakes: each change of a table that is behind, and each other head, wakes its waiting
// subscriptions once; without anything to wait for there is no wait.
func TestBehindWakes(t *testing.T) {
	w, ahead := start(t, Config{HeadWait: headWait}), start(t, Config{})
	c, other := w.client(clusters, false, "a"), w.client(clusters, false, "b")
	ahead.client(clusters, true)
	woken := func(what string, want bool) {
		t.Helper()
		if got := w.woke(); got[c.w.sub] != want || got[other.w.sub] {
			t.Fatalf("%s: woken %v", what, got)
		}
		w.nap()
	}
	w.client(clusters, true)
	w.feed.Apply(Update{Type: clusters})
	if c.table.Await(&c.w) {
		t.Fatal("there is no head to wait for")
	}
	ahead.apply(clusters, res("x", "1"))
	w.nap()
	w.group.ObserveHead(clusters, ahead.headOf(clusters))
	woken("nobody waits", false)
	if !c.table.Await(&c.w) {
		t.Fatal("the table is behind")
	}
	w.group.ObserveHead(clusters, ahead.headOf(clusters))
	woken("the same head", false)
	ahead.apply(clusters, res("x", "2"))
	w.group.ObserveHead(clusters, ahead.headOf(clusters))
	woken("another head", true)
	w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{1}})
	woken("it does not wait any more", false)
	w.group.ObserveHead(clusters, ahead.headOf(clusters))
	c.table.Await(&c.w)
	w.apply(clusters, res("y", "1"))
	woken("a change of something else", true)
	c.table.Await(&c.w)
	c.table.Leave(&c.w)
	if n := len(c.table.core.tierHead.waiting); n > 0 {
		t.Fatalf("%d subscriptions wait without clients", n)
	}
}

// TestBehindByName: without a wildcard nodes have different content, so the wait is short while
// the control plane can bring what is newer. It cannot without a stream, and a new stream has first
// to answer: until then all clients wait as long, also those whose version proves nothing (K12).
func TestBehindByName(t *testing.T) {
	inTime(t, Config{HeadWait: headWait}, func(t *testing.T, w *world) {
		c := w.client(endpoints, false, "a")
		w.feed.TakeDemand(true, false)
		w.apply(endpoints, res("a", "1"))
		w.group.ObserveHead(endpoints, TierHead{Digest: resource.Digest{1}})
		since := time.Now()
		for _, step := range []struct {
			what string
			do   func()
			want time.Duration
		}{
			{"there is a stream", w.feed.Up, byNameWait},
			{"it ended", func() { w.feed.Down(ErrClosed) }, headWait},
			{"a new one has not answered", func() { w.feed.TakeDemand(true, false); w.feed.Up() }, headWait},
			{"it has answered", func() { w.apply(endpoints, res("a", "1")) }, byNameWait},
		} {
			step.do()
			<-time.After(time.Millisecond)
			h := c.head()
			if h.Behind.Until != since.Add(step.want) || h.Behind.ByNameToo != (step.want == headWait) {
				t.Errorf("%s: behind for %s, expected %s; by name, too: %t", step.what, h.Behind.Until.Sub(since), step.want, h.Behind.ByNameToo)
			}
		}
		w.feed.Down(ErrClosed)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		<-time.After(confidence.Silence)
		if h := c.head(); h.Behind.Until != since.Add(byNameWait) {
			t.Errorf("the new stream is silent: behind for %s", h.Behind.Until.Sub(since))
		}
	})
}

// TestBehindByNameProven: an owner writes heads before it writes its content, so a record that
// differs from the head proves to be older, even without a wildcard; one with the head's content,
// or that is no owner's record, proves nothing once the control plane is silent (K12).
func TestBehindByNameProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := start(t, Config{HeadWait: headWait})
		other.client(endpoints, false, "a", "b")
		other.apply(endpoints, res("a", "1"), res("b", "1"))
		same := other.headOf(endpoints)
		for name, tc := range map[string]struct {
			head     TierHead
			recorded bool
			behind   bool
			wait     time.Duration
		}{
			"the head is another":         {TierHead{Digest: resource.Digest{1}}, true, true, headWait},
			"the head is the record":      {same, true, false, 0},
			"it is not an owner's record": {TierHead{Digest: resource.Digest{1}}, false, true, byNameWait},
		} {
			w := start(t, Config{HeadWait: headWait})
			k := holds(endpoints, false, time.Now(), res("a", "1"), res("b", "1"))
			k.Recorded = tc.recorded
			w.group.RestoreFrom(k)
			w.feed.Up()
			c := w.client(endpoints, false, "a", "b")
			<-time.After(confidence.Silence)
			w.group.ObserveHead(endpoints, tc.head)
			h := c.head()
			if h.Behind.ByNameToo != (tc.wait == headWait) || h.Behind.Until.IsZero() == tc.behind || tc.behind && h.Behind.Until != time.Now().Add(tc.wait) {
				t.Errorf("%s: by name, too, %t, behind until %s from now", name, h.Behind.ByNameToo, time.Until(h.Behind.Until))
			}
		}
	})
}

// TestHeadEarly: a head that arrives before any client asks for the type counts from the first
// request on; without a tier, and in private groups, nothing counts.
func TestHeadEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alone := start(t, Config{HeadWait: headWait}), start(t, Config{})
		for _, w := range []*world{w, alone} {
			w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{1}})
			w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{2}})
		}
		<-time.After(time.Hour)
		if until := w.client(clusters, true).head().Behind.Until; until != time.Now().Add(headWait) {
			t.Errorf("behind until %v", until)
		}
		if until := alone.client(clusters, true).head().Behind.Until; !until.IsZero() {
			t.Errorf("a node on its own is behind until %v", until)
		}
		for i := range 2 * maxEarlyHeads {
			w.group.ObserveHead(resource.TypeOf(fmt.Sprint("type.googleapis.com/x", i)), TierHead{})
		}
		if n := len(w.group.tierHeads); n > maxEarlyHeads {
			t.Errorf("heads of %d types without a table are kept", n)
		}
		private := w.cache.JoinPrivate(w.group, w.group.Node)
		<-w.feeds
		private.ObserveHead(clusters, TierHead{Digest: resource.Digest{2}})
		if private.Table(clusters).core.tierHead.Comparison != nil {
			t.Error("a private table takes part in the tier")
		}
		w.cache.Leave(private)
	})
}
