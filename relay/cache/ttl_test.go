package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/resource"
)

// TTLs expire in virtual time: each test is a bubble with its own cache.
func virtually(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		f(t, w)
	})
}

// living is a resource with a TTL in seconds.
func living(name, content string, ttl int) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: []byte(content), TTL: time.Duration(ttl) * time.Second})
}

// heartbeat is what a control plane sends to renew a TTL.
func heartbeat(name, version string, ttl int) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Version: version, TTL: time.Duration(ttl) * time.Second})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// timed asks as a client that supports TTLs.
var timed = Query{Reader: TTLClient}

// left is the remaining TTL of a resource in an answer; 0: none.
func left(c Changes, name string) time.Duration {
	for r, d := range c.Lifetimes {
		if r.Name == name {
			return d
		}
	}
	return 0
}

// TestExpiry: F5: a resource with an expired TTL is removed as if the control plane had removed it,
// even while that is unreachable (C14); resources without a TTL stay.
func TestExpiry(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Apply(Update{Type: clusters, Full: true, Version: "v1", Resources: []*resource.Resource{living("a", "x", 30), living("b", "x", 10), res("c", "x")}})
		expect(t, c.ask(t, timed), "a", "b", "c")
		w.feed.Down(errIdle)
		pass(seconds(9.9))
		expect(t, c.ask(t, timed))
		w.nap()
		pass(seconds(0.2))
		if !w.woke()[c.w.sub] {
			t.Fatal("nobody was woken")
		}
		got := c.ask(t, timed)
		expect(t, got, "-b")
		if !got.Derived { // D7
			t.Fatalf("the version is still %q", got.Version)
		}
		pass(seconds(20))
		expect(t, c.ask(t, Query{}), "-a")
		expect(t, w.client(clusters, true).ask(t, Query{}), "c")
		if n := w.cache.GroupInfos()[0].Tables[0].Expired; n != 2 {
			t.Fatalf("%d expiries are counted", n)
		}
	})
}

// TestLifetimesCountDown: F3: clients that support TTLs (F1) get the remaining time.
func TestLifetimesCountDown(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		w.client(endpoints, false, "a")
		w.apply(endpoints, living("a", "x", 30))
		pass(seconds(20))
		late, plain := w.client(endpoints, false, "a"), w.client(endpoints, false, "a")
		if d := left(late.ask(t, timed), "a"); d != seconds(10) {
			t.Fatalf("%v are left of 30 s after 20", d)
		}
		got := plain.ask(t, Query{})
		expect(t, got, "a")
		if got.Lifetimes != nil {
			t.Fatalf("told lifetimes %v", got.Lifetimes)
		}
		moment := w.client(endpoints, false, "a")
		if d := left(moment.ask(t, Query{Reader: TTLClient, At: time.Now().Add(seconds(4))}), "a"); d != seconds(6) {
			t.Fatalf("%v are left in four seconds", d)
		}
		end := w.client(endpoints, false, "a")
		if d := left(end.ask(t, Query{Reader: TTLClient, At: time.Now().Add(seconds(60))}), "a"); d <= 0 {
			t.Fatalf("a lifetime of %v means none", d)
		}
	})
}

// TestHeartbeats: F6, F4: a heartbeat renews the TTL of a resource and is passed on, once, to the
// clients that have that resource and support TTLs; others get nothing.
func TestHeartbeats(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		c, plain, other := w.client(endpoints, false, "a"), w.client(endpoints, false, "a"), w.client(endpoints, false, "b")
		w.apply(endpoints, resource.New(resource.Resource{Name: "a", Version: "v1", Body: []byte("x"), TTL: seconds(10)}))
		c.ask(t, timed)
		plain.ask(t, Query{})
		for range 5 {
			pass(seconds(8))
			w.nap()
			w.apply(endpoints, heartbeat("a", "v1", 10))
			if woke := w.woke(); !woke[c.w.sub] || woke[other.w.sub] {
				t.Fatalf("woken: %v", woke)
			}
			got := c.ask(t, timed)
			expect(t, got)
			if len(got.Heartbeats) != 1 || got.Heartbeats[0].Version != "v1" || left(got, "a") != seconds(10) {
				t.Fatalf("told %v, %v", got.Heartbeats, got.Lifetimes)
			}
			if again := c.ask(t, timed); !again.Empty() {
				t.Fatalf("told twice: %+v", again)
			}
			if got := plain.ask(t, Query{}); !got.Empty() || got.To != plain.at {
				t.Fatalf("a client without TTLs is told %+v", got)
			}
		}
		w.nap()
		w.apply(endpoints, heartbeat("a", "v0", 10), heartbeat("b", "", 10), heartbeat("z", "", 10)) // of unknown resources
		if len(w.woke()) > 0 {
			t.Fatal("somebody was woken for nothing")
		}
		// A client without the resource gets the body instead.
		late := w.client(endpoints, false, "a")
		got := late.ask(t, timed)
		expect(t, got, "a")
		if len(got.Heartbeats) > 0 {
			t.Fatal("the heartbeat of something new")
		}
		pass(seconds(10))
		expect(t, plain.ask(t, Query{}), "-a")
	})
}

// TestTTLChanges: F2: a new, changed or removed TTL is sent with the resource, and only to clients
// that support TTLs; an unchanged one is a heartbeat.
func TestTTLChanges(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		c, plain := w.client(endpoints, false, "a"), w.client(endpoints, false, "a")
		w.apply(endpoints, res("a", "x"))
		c.ask(t, timed)
		plain.ask(t, Query{})
		for _, step := range []struct {
			said *resource.Resource
			beat bool
			left time.Duration
		}{
			{said: living("a", "x", 10), left: seconds(10)},
			{said: living("a", "x", 10), left: seconds(10), beat: true},
			{said: living("a", "x", 20), left: seconds(20)},
			{said: heartbeat("a", "", 5), left: seconds(5), beat: true},
			{said: res("a", "x")},
			{said: heartbeat("a", "", 5), left: seconds(5)},
			{said: res("a", "x")},
		} {
			w.apply(endpoints, step.said)
			got := c.ask(t, timed)
			if beat := len(got.Heartbeats) == 1; beat != step.beat || len(got.Resources) == 1 == beat || left(got, "a") != step.left {
				t.Fatalf("after %+v: %v, %v, %v", step.said, said(got), got.Heartbeats, got.Lifetimes)
			}
			if got := plain.ask(t, Query{}); !got.Empty() { // B31
				t.Fatalf("a client without TTLs is told %v", said(got))
			}
		}
		w.apply(endpoints, res("a", "x"))
		if got := c.ask(t, timed); !got.Empty() {
			t.Fatalf("told %v of nothing", said(got))
		}
		pass(time.Hour)
		expect(t, c.ask(t, Query{}))
	})
}

// TestHeartbeatsAfterReconnect: missed heartbeats renew the resources that a client kept over a
// reconnect (B37, F3); heartbeats that were sent while it could not answer are sent only if it has
// the resource itself (F6).
func TestHeartbeatsAfterReconnect(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		w.client(endpoints, false, "a", "b")
		w.apply(endpoints, living("a", "x", 30), living("b", "x", 30))
		pass(seconds(10))
		back := w.client(endpoints, false, "a", "b")
		send, at, rest := back.table.Reconcile(&back.w, nil, []resource.Held{{Name: "a", Version: living("a", "x", 1).Version}, {Name: "b", Version: "old"}}, false)
		back.at = at
		got := back.ask(t, Query{Reader: TTLClient, Force: send})
		expect(t, got, "b")
		if len(got.Heartbeats) != 1 || left(got, "a") != seconds(20) || len(rest) > 0 {
			t.Fatalf("told %v, %v", got.Heartbeats, got.Lifetimes)
		}
		before := back.at
		w.apply(endpoints, living("a", "y", 30), heartbeat("b", "", 30))
		notes, err := back.table.Changes(&back.w, Query{Since: before, Reader: TTLClient, Scope: NotesOnly})
		if err != nil || len(notes.Resources) > 0 || len(notes.Heartbeats) != 1 || notes.Heartbeats[0].Name != "b" || notes.To.Gen != before.Gen {
			t.Fatalf("notes %+v, %v", notes, err)
		}
		except, err := back.table.Changes(&back.w, Query{Since: before, Reader: TTLClient, Scope: NotesOnly, Except: NewNames([]string{"b"})})
		if err != nil || !except.Empty() {
			t.Fatalf("notes %+v, %v", except, err)
		}
		if quiet := back.ask(t, Query{Reader: TTLClient, Scope: QuietNews}); len(quiet.Heartbeats) > 0 || quiet.To.Noted != before.Noted {
			t.Fatalf("told %v quietly", quiet.Heartbeats)
		}
	})
}

// TestLifetimesOfTwoStreams: F5, D11: each copy of a resource has its own TTL, and clients get that
// of the copy that they see.
func TestLifetimesOfTwoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{
			Streams: []OriginStream{{Origin: "one"}, {Origin: "one", Names: true}},
			Route: func(_ *resource.Type, name string) int {
				if name == everything {
					return 0
				}
				return 1
			},
		})
		defer w.close()
		all, named := w.client(clusters, true), w.client(clusters, false, "a")
		w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{living("a", "x", 60)}})
		w.stream(1).Apply(Update{Type: clusters, Resources: []*resource.Resource{living("a", "x", 10)}})
		if d := left(named.ask(t, timed), "a"); d != seconds(10) { // they see the copy that arrived last
			t.Fatalf("%v left", d)
		}
		if d := left(all.ask(t, timed), "a"); d != seconds(10) {
			t.Fatalf("%v left", d)
		}
		pass(seconds(5))
		w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{heartbeat("a", "", 60)}})
		if got := named.ask(t, timed); !got.Empty() {
			t.Fatalf("told %+v of the other copy", got)
		}
		pass(seconds(6))
		got := named.ask(t, timed)
		expect(t, got, "a") // the other copy stays, with another TTL
		if d := left(got, "a"); d != seconds(54) {
			t.Fatalf("%v left", d)
		}
		pass(seconds(55))
		expect(t, named.ask(t, timed), "-a")
		expect(t, all.ask(t, timed), "-a")
	})
}

// TestNoTimersAfterTheEnd: TTLs of an evicted key never fire.
func TestNoTimersAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.client(endpoints, false, "a")
		w.apply(endpoints, living("a", "x", 10))
		w.close()
		w.nap()
		pass(time.Minute)
		if len(w.woke()) > 0 {
			t.Fatal("somebody was woken")
		}
	})
}
