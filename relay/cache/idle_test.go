package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// TestHoldOnResume: a key that was idle asks its control plane before it serves old content, but
// not for long, and not if the control plane is unreachable.
func TestHoldOnResume(t *testing.T) {
	for name, end := range map[string]func(*world){
		"the origin answers":   func(w *world) { w.apply(clusters, res("a", "2")) },
		"it is out of reach":   func(w *world) { w.feed.Down(errors.New("refused")) },
		"the hold time passes": func(*world) { pass(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.apply(clusters, res("a", "1"))
				w.cache.Leave(w.group)
				pass(time.Hour)
				w.join()
				if h := c.head(); !h.Held || h.Answer == OutOfReach {
					t.Fatalf("%+v", h)
				}
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Kind: Partial})
				pass(time.Second / 2)
				if !c.head().Held {
					t.Fatal("not held any more")
				}
				w.nap()
				end(w)
				if c.head().Held || !w.woke()[c.w.sub] {
					t.Fatalf("%+v, woken %v", c.head(), w.woke())
				}
				expect(t, c.ask(t, Query{}), "a")
			})
		})
	}
}

// TestIdleContentIsDoubtfulUntilAnswered: the content of a key that was idle may be hours old until
// its control plane has answered: another node gets nothing of it that contradicts its own content,
// and the key is not fresh until an answer, or five seconds of silence. The end of the hold time
// confirms nothing (K14).
func TestIdleContentIsDoubtfulUntilAnswered(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		w.apply(clusters, res("a", "1"))
		w.cache.Leave(w.group)
		pass(3 * time.Hour)
		w.group = w.cache.JoinPeer("key", &corev3.Node{Id: "node"})
		w.feed = <-w.feeds
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		is := func(at string, doubtful, fresh bool) {
			t.Helper()
			if d, cut := c.table.Doubtful(""); d != doubtful || cut {
				t.Errorf("%s: doubtful %t, cut %t, expected %t and false", at, d, cut, doubtful)
			}
			if f := w.feed.Fresh(); f != fresh {
				t.Errorf("%s: fresh %t, expected %t", at, f, fresh)
			}
		}
		is("at once", true, false)
		pass(1200 * time.Millisecond)
		if c.head().Held {
			t.Error("held after the hold time")
		}
		is("after the hold time", true, false)
		pass(3 * time.Second)
		is("before five seconds are over", true, false)
		pass(time.Second)
		is("after five seconds", true, true)
		pass(time.Hour)
		is("after an hour", true, true)
		w.apply(clusters, res("a", "1"))
		is("once the origin has answered", false, true)
	})
}

// TestHoldOnResumeOfNothing: the knowledge that nothing exists is as old as other content (K13).
func TestHoldOnResumeOfNothing(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.apply(clusters)
		if h := c.head(); h.Answer != Answered || h.Held || h.Gen > 0 {
			t.Fatalf("an empty set is %+v", h)
		}
		w.cache.Leave(w.group)
		pass(time.Hour)
		w.join()
		if h := c.head(); !h.Held {
			t.Fatalf("%+v", h)
		}
		w.apply(clusters, res("a", "1"))
		if c.head().Held {
			t.Fatal("held although the origin has answered")
		}
		expect(t, c.ask(t, Query{}), "a")
	})
}

// TestIdleKeysAreBounded: idle keys are kept as far as their bytes have room, the least recently
// used are evicted first, and keys with clients stay whatever their size.
func TestIdleKeysAreBounded(t *testing.T) {
	inTime(t, Config{Linger: time.Second, IdleBytes: 110 << 10}, func(t *testing.T, w *world) {
		large := make([]byte, 30<<10)
		fill := func(g *Group) {
			c := &client{table: g.Table(clusters)}
			c.table.Replace(&c.w, true, nil)
			g.streams[0].feed.Apply(Update{Type: clusters, Full: true, Resources: []*resource.Resource{res("a", string(large))}})
			c.table.Leave(&c.w)
		}
		fill(w.group)
		for i := range 10 {
			g := w.cache.Join(aggregation.Key(fmt.Sprint(i)), &corev3.Node{})
			<-w.feeds
			fill(g)
			w.cache.Leave(g)
			pass(time.Minute)
		}
		keys := make(map[aggregation.Key]bool)
		for _, g := range w.cache.Groups() {
			keys[g.Key] = true
		}
		if len(keys) != 4 || !keys["key"] || !keys["9"] || !keys["8"] || !keys["7"] {
			t.Fatalf("kept %v", keys)
		}
		if w.cache.idleBytes > 110<<10 || len(w.cache.sizes) != 3 {
			t.Fatalf("%d bytes in %d keys", w.cache.idleBytes, len(w.cache.sizes))
		}
		// A returning client takes the key out of the bound, and another idle key replaces it.
		g := w.cache.Join("7", nil)
		<-w.feeds
		if w.cache.idleBytes > 70<<10 || len(w.cache.sizes) != 2 {
			t.Fatalf("%d bytes in %d keys", w.cache.idleBytes, len(w.cache.sizes))
		}
		w.cache.Leave(g)
		pass(time.Minute)
		if g2 := w.cache.Join("0", nil); g2.streams[0].feed == nil || len(g2.Tables()) > 0 {
			t.Fatal("a dropped key still has its state")
		}
		<-w.feeds
	})
}

// TestEmptyKeysCount: keys without content take memory: many of them are bounded, too.
func TestEmptyKeysCount(t *testing.T) {
	inTime(t, Config{Linger: time.Second, IdleBytes: 100 << 10}, func(t *testing.T, w *world) {
		for i := range 1000 {
			g := w.cache.Join(aggregation.Key(fmt.Sprint(i)), nil)
			<-w.feeds
			w.cache.Leave(g)
		}
		pass(time.Minute)
		if n := len(w.cache.Groups()); n > 101 {
			t.Fatalf("%d keys are kept", n)
		}
	})
}

// TestNoIdleKeys: a negative bound means that idle keys are dropped at once.
func TestNoIdleKeys(t *testing.T) {
	inTime(t, Config{Linger: time.Second, IdleBytes: -1}, func(t *testing.T, w *world) {
		w.cache.Leave(w.group)
		pass(time.Minute)
		if n := len(w.cache.Groups()); n != 0 {
			t.Fatalf("%d keys are kept", n)
		}
		w.join()
	})
}

// TestNothingIsGoneInDoubt: the content of a key that was idle is old. A returning client may have
// newer content, and is sent a removal only once the control plane has answered: that the resource
// is missing, or has been removed (K14).
func TestNothingIsGoneInDoubt(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		named, all := w.client(endpoints, false, "a", "b"), w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.apply(endpoints, res("a", "1"), res("b", "1"))
		w.remove(endpoints, "a")
		w.apply(clusters, res("a", "1"))
		w.cache.Leave(w.group)
		pass(time.Hour)
		w.join()
		w.feed.TakeDemand(true, false)
		w.feed.Down(errors.New("refused"))

		var rests [][]resource.Held
		for _, c := range []*client{named, all} {
			send, _, rest := c.table.Reconcile(&c.w, nil, []resource.Held{{Name: "a", Version: res("a", "1").Version}, {Name: "b", Version: "2"}}, false)
			if c == named && !slices.Equal(send.List, []string{"b"}) || c == all && send != nil {
				t.Errorf("sent %v, streams %+v", send, c.table.core.streams)
			}
			if gone, _, _ := c.table.Gone(&c.w, nil, rest); gone != nil {
				t.Errorf("%v is gone", gone.List)
			}
			rests = append(rests, rest)
		}
		w.feed.Up()
		w.feed.TakeDemand(true, false)
		w.apply(endpoints, res("b", "1"))
		w.apply(clusters, res("a", "1"))
		if gone, rest, _ := named.table.Gone(&named.w, nil, rests[0]); gone == nil || !slices.Equal(gone.List, []string{"a"}) || rest != nil {
			t.Errorf("of %v, %v is gone, and %v left", rests[0], gone, rest)
		}
		if gone, rest, _ := all.table.Gone(&all.w, nil, rests[1]); gone == nil || !slices.Equal(gone.List, []string{"b"}) || rest != nil {
			t.Errorf("of %v, %v is gone, and %v left", rests[1], gone, rest)
		}
	})
}

// TestSilenceEndsDoubt: a control plane that is asked again for names of a key that was idle, and
// has none of them, need not answer (B34). A returning client with one of them is sent its removal
// when the time for an answer has passed (C12), whether the absence was known before or not.
func TestSilenceEndsDoubt(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		c := w.client(endpoints, false, "a", "b")
		w.feed.TakeDemand(true, false)
		w.apply(endpoints, res("a", "1"))
		w.remove(endpoints, "a", "b")
		w.cache.Leave(w.group)
		pass(time.Hour)
		w.join()
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		pass(time.Hour)

		claims := []resource.Held{{Name: "a", Version: "1"}, {Name: "b", Version: "1"}}
		if send, _, rest := c.table.Reconcile(&c.w, nil, claims, false); send != nil && send.Len() > 0 || len(rest) != 2 {
			t.Errorf("before the origin is known to have nothing: sent %v, %v left", send, rest)
		}
		if missing := w.feed.Missing(endpoints, []string{"a", "b"}); !slices.Equal(missing, []string{"a", "b"}) {
			t.Errorf("what may still come is %v", missing)
		}
		w.feed.Absent(endpoints, []string{"a"})
		gone, rest, _ := c.table.Gone(&c.w, nil, claims)
		if gone == nil || !slices.Equal(gone.List, []string{"a"}) || len(rest) != 1 || rest[0].Name != "b" {
			t.Errorf("%v is gone, and %v left", gone, rest)
		}
		w.feed.Absent(endpoints, []string{"b"})
		if gone, rest, _ = c.table.Gone(&c.w, nil, rest); gone == nil || !slices.Equal(gone.List, []string{"b"}) || rest != nil {
			t.Errorf("%v is gone, and %v left", gone, rest)
		}
	})
}

// TestIdleKeysForgetNames: a key without clients keeps no names without content, and their memory
// is freed; the content stays for returning clients.
func TestIdleKeysForgetNames(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: -1}, func(t *testing.T, w *world) {
		c := w.client(endpoints, false, "there")
		w.feed.TakeDemand(true, true)
		w.apply(endpoints, res("there", "1"))
		small := w.group.bytes()
		names := make([]string, 10_000)
		for i := range names {
			names[i] = fmt.Sprintf("made-up-%d", i)
		}
		c.table.Edit(&c.w, Edit{Add: names})
		w.feed.TakeDemand(true, false)
		w.feed.Absent(endpoints, names[:5000])
		c.table.Leave(&c.w)
		w.cache.Leave(w.group)
		pass(2 * time.Minute)
		if !w.cache.GroupInfos()[0].Idle {
			t.Fatal("the key has clients")
		}
		if n, bytes := c.table.info().Names, w.group.bytes(); n != 1 || bytes > small+1000 {
			t.Errorf("an idle key wants %d names, and holds %d bytes; it held %d before they were asked for", n, bytes, small)
		}
		if n := w.cache.lingering.Load(); n != 0 {
			t.Errorf("%d bytes still count as lingering", n)
		}
		w.join()
		back := w.client(endpoints, false, "there")
		expect(t, back.ask(t, Query{}), "there")
		expectDemand(t, w, true, "+there")
	})
}
