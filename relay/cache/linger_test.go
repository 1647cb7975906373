package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// These tests run in virtual time.

func inTime(t *testing.T, cfg Config, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cfg)
		defer w.close()
		f(t, w)
	})
}

// pass lets d pass, and everything happen that is then due.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// TestNamesLinger: K10: a name without interest stays subscribed for the linger time; a client that
// returns within it needs no new request.
func TestNamesLinger(t *testing.T) {
	inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(clusters, true, "a")
		expectDemand(t, w, true, "+a", "+*")
		w.apply(clusters, res("a", "1"), res("b", "1"))
		c.table.Leave(&c.w)
		pass(30 * time.Second)
		expectDemand(t, w, false)
		back := w.client(clusters, false, "a")
		expect(t, back.ask(t, Query{}), "a")
		pass(2 * time.Minute)
		expectDemand(t, w, false, "-b", "-*") // no client returned for it
		if h := w.feed.Held(clusters); len(h) != 1 {
			t.Fatalf("held %v", h)
		}
		back.table.Replace(&back.w, false, nil)
		pass(2 * time.Minute)
		if !news(w.feed) {
			t.Fatal("the feed was not told")
		}
		expectDemand(t, w, false, "-a")
		if h := w.feed.Held(clusters); len(h) != 0 {
			t.Fatalf("held %v", h)
		}
	})
}

// TestLingeringIsBounded: if clients keep leaving new names, no more linger than the bound, and the
// first ones stay (K10).
func TestLingeringIsBounded(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Lingering: 3000}, func(t *testing.T, w *world) {
		c := w.client(clusters, false, "first")
		c.table.Replace(&c.w, false, nil)
		const each = 1000
		for i := range 10 {
			names := make([]string, each)
			for j := range names {
				names[j] = fmt.Sprintf("n%d-%d", i, j)
			}
			c.table.Edit(&c.w, Edit{Add: names})
			c.table.Edit(&c.w, Edit{Remove: names})
			pass(5 * time.Second)
			if n := c.table.info().Names; n > 3000 {
				t.Fatalf("after %d names, %d are asked for", (i+1)*each, n)
			}
		}
		c.table.mu.RLock()
		ok := c.table.core.demand.Get("first") != nil
		c.table.mu.RUnlock()
		if !ok {
			t.Error("the first one was dropped early")
		}
		pass(2 * time.Minute)
		if n := c.table.info().Names; n != 0 {
			t.Errorf("%d names are still asked for", n)
		}
	})
}

// TestNoLinger: a negative linger time disables it.
func TestNoLinger(t *testing.T) {
	inTime(t, Config{Linger: -1}, func(t *testing.T, w *world) {
		c := w.client(clusters, false, "a")
		expectDemand(t, w, true, "+a")
		c.table.Leave(&c.w)
		synctest.Wait()
		expectDemand(t, w, false, "-a")
		ended := w.feed.ctx
		w.cache.Leave(w.group)
		synctest.Wait()
		if ended.Err() == nil {
			t.Fatal("the feed goes on")
		}
		w.join()
	})
}

// TestKeysLinger: K10: a key's feed ends when there was no client for the linger time, and not
// before; the state stays, and serves returning clients.
func TestKeysLinger(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: -1}, func(t *testing.T, w *world) {
		c := w.client(clusters, true, "a")
		w.apply(clusters, res("a", "1"))
		first := w.feed
		w.cache.Leave(w.group)
		pass(59 * time.Second)
		g := w.cache.Join("key", nil)
		if g != w.group || first.ctx.Err() != nil || g.Node.GetId() != "node" {
			t.Fatal("another group, or another feed")
		}
		pass(time.Hour)
		if first.ctx.Err() != nil {
			t.Fatal("the feed ended under a client")
		}
		c.table.Leave(&c.w)
		w.cache.Leave(w.group)
		pass(time.Minute)
		if cause := context.Cause(first.ctx); !errors.Is(cause, errIdle) {
			t.Fatalf("the feed goes on, or ended with %v", cause)
		}
		if s := w.cache.GroupInfos(); len(s) != 1 || !s[0].Idle || s[0].Connected || s[0].Error == "" {
			t.Fatalf("%+v", s)
		}
		pass(24 * time.Hour)
		w.join()
		if w.feed == first || w.group != g {
			t.Fatal("the old feed, or another group")
		}
		if s := w.cache.GroupInfos(); s[0].Idle || s[0].Error != "" || s[0].Clients != 1 {
			t.Fatalf("%+v", s)
		}
		expectDemand(t, w, true, "+a", "+*") // its interest, for the linger time
		expect(t, w.client(clusters, true).ask(t, Query{}), "a")
		pass(2 * time.Minute)
		expectDemand(t, w, false, "-a")
	})
}

// TestOldFeedChangesNothing: a feed that has ended changes nothing any more.
func TestOldFeedChangesNothing(t *testing.T) {
	inTime(t, Config{Linger: time.Minute}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		old := w.feed
		old.Up()
		w.apply(clusters, res("a", "1"))
		w.cache.Leave(w.group)
		pass(time.Hour)
		w.join()
		w.feed.Up()
		expectDemand(t, w, true, "+*")
		c.table.Edit(&c.w, Edit{Add: []string{"z"}})
		before := c.table.newest()
		n := old.Apply(Update{Type: clusters, Full: true}) + old.Absent(clusters, []string{"z"})
		old.Down(errors.New("late"))
		if got := old.TakeDemand(true, true); n != 0 || len(got) > 0 || c.table.newest() != before || !w.group.Upstream().Connected {
			t.Fatalf("%d changes, %+v, %+v", n, got, w.group.Upstream())
		}
		expectDemand(t, w, false, "+z")
	})
}

// TestUnreachable: K13: during the first attempt an answer may still arrive soon.
func TestUnreachable(t *testing.T) {
	inTime(t, Config{}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		if c.head().Answer == OutOfReach {
			t.Fatal("hopeless before the first attempt")
		}
		w.nap()
		w.feed.Down(errors.New("refused"))
		if c.head().Answer != OutOfReach || !w.woke()[c.w.sub] {
			t.Fatal("hope, or nobody was told")
		}
		since := w.group.Upstream().Since
		pass(time.Second)
		w.feed.Down(errors.New("refused again"))
		if up := w.group.Upstream(); up.Since != since || up.Err.Error() != "refused again" {
			t.Fatalf("%+v", up)
		}
		w.feed.Up()
		if c.head().Answer == OutOfReach || w.group.Upstream().Since.Equal(since) {
			t.Fatal("no hope, though connected")
		}
	})
}

// TestClose: feeds end with the cause, and the state stays readable.
func TestClose(t *testing.T) {
	inTime(t, Config{}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.apply(clusters, res("a", "1"))
		w.cache.Close()
		if cause := context.Cause(w.feed.ctx); !errors.Is(cause, ErrClosed) {
			t.Fatalf("%v", cause)
		}
		expect(t, c.ask(t, Query{}), "a")
		if n := w.apply(clusters, res("a", "2")); n != 0 {
			t.Fatalf("%d changes", n)
		}
		w.cache.Leave(w.group)
		if g := w.cache.Join("other", nil); g.streams[0].feed != nil {
			t.Fatal("a feed after the end")
		}
		pass(time.Hour)
	})
}

// TestConfig: the required fields, and the meaning of the zero value.
func TestConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a cache without Run and Wake")
	}
	cfg := Config{Run: func(context.Context, *Feed) {}, Wake: func([]*Subscription) {}, Linger: -5}
	if err := cfg.setDefaults(); err != nil || cfg.Linger != 0 || cfg.Hold != time.Second || cfg.IdleBytes != 256<<20 || cfg.Tombstones != 1024 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// TestLingeringBytesAreBounded: names that are left linger only as the bound on their bytes allows,
// and a key leaves room for others (K10).
func TestLingeringBytesAreBounded(t *testing.T) {
	const bound = 1 << 20
	inTime(t, Config{Linger: time.Minute, LingeringBytes: bound}, func(t *testing.T, w *world) {
		c := w.client(endpoints, false, "first")
		for i := range 10 {
			names := make([]string, 1000)
			for j := range names {
				names[j] = fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", 1000))
			}
			c.table.Edit(&c.w, Edit{Add: names})
			c.table.Edit(&c.w, Edit{Remove: names})
		}
		pass(10 * time.Second)
		if n := c.table.info().Names; n < 10 || n > bound/4/1240 {
			t.Errorf("%d names of 1240 bytes are asked for", n)
		}
		pass(2 * time.Minute)
		if n := c.table.info().Names; n != 1 || w.cache.lingering.Load() != 0 {
			t.Errorf("%d names are still asked for, and %d bytes count", n, w.cache.lingering.Load())
		}
	})
}
