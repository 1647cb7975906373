package cache

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/cache/link"
)

// TestAskedFirst: K16: with the removal guard in a tier, or a governor of the key, the control plane is asked for nothing of
// which other nodes may know more, until they were asked; then for all of it. A node that knows the
// content, or gets it from the owner, asks at once.
func TestAskedFirst(t *testing.T) {
	guard := Config{MaxRemovalPercent: 50, RemovalHold: time.Minute}
	for name, tc := range map[string]struct {
		cfg   Config
		setUp func(w *world)
		waits bool
	}{
		"nothing is known":             {guard, func(*world) {}, true},
		"something old is known":       {guard, func(w *world) { w.group.RestoreFrom(keptSet(time.Now(), "a")) }, true},
		"without the guard":            {Config{}, func(*world) {}, false},
		"a rollout releases changes":   {Config{}, func(w *world) { w.group.Govern(&Governor{Changed: func(*Group) {}}) }, true},
		"the owner is asked":           {guard, func(w *world) { w.feed.Borrow(true) }, false},
		"the owner was followed":       {guard, func(w *world) { w.feed.Borrow(true); w.follow("a"); w.feed.Borrow(false) }, false},
		"the owner had nothing either": {guard, func(w *world) { w.feed.Borrow(true); w.feed.Borrow(false) }, true},
		"others were asked":            {guard, func(w *world) { w.feed.Asked() }, false},
		"they were asked long ago":     {guard, func(w *world) { w.feed.Asked(); time.Sleep(link.AskedFor + 1) }, true}, //nolint:forbidigo // virtual time
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tc.cfg)
				defer w.close()
				w.feed.AwaitOthers()
				w.feed.Borrow(false)
				w.client(clusters, true)
				tc.setUp(w)
				d := w.feed.TakeDemand(true, true)
				if need, _ := w.feed.Need(); (len(d) == 0) != tc.waits || (need == NeedFirst) != tc.waits {
					t.Fatalf("asked for %+v, needs %d, expected to wait: %t", d, need, tc.waits)
				}
				if !tc.waits {
					return
				}
				drain(w.feed.News())
				w.feed.Asked()
				select {
				case <-w.feed.News():
				default:
					t.Fatal("nobody was signaled")
				}
				if d = w.feed.TakeDemand(false, true); len(d) != 1 || !d[0].Wildcard || !d[0].WildcardChanged {
					t.Fatalf("asked for %+v, expected everything", d)
				}
				if d = w.feed.TakeDemand(false, true); len(d) > 0 {
					t.Fatalf("asked twice: %+v", d)
				}
			})
		})
	}
}

// TestWildcardAskedFirst: K16: interest by name does not make other nodes superfluous when a client
// joins the wildcard. Names alone are asked for at once.
func TestWildcardAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{MaxRemovalPercent: 50})
		defer w.close()
		w.feed.AwaitOthers()
		w.client(clusters, false, "a")
		w.feed.Asked()
		if d := w.feed.TakeDemand(true, true); len(d) != 1 {
			t.Fatalf("asked for %+v", d)
		}
		w.feed.Up()
		w.apply(clusters, res("a", "1"))
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		w.client(clusters, false, "b")
		if d := w.feed.TakeDemand(false, true); len(d) != 1 || len(d[0].Subscribe) != 1 {
			t.Fatalf("asked for %+v, expected b", d)
		}
		w.client(clusters, true)
		if d := w.feed.TakeDemand(false, true); len(d) > 0 {
			t.Fatalf("asked for %+v before the others", d)
		}
		if need, link := w.feed.Need(); need != NeedFirst || link != LinkUp {
			t.Fatalf("needs %d, link %d", need, link)
		}
		w.feed.Asked()
		if d := w.feed.TakeDemand(false, true); len(d) != 1 || !d[0].WildcardChanged || len(d[0].Subscribe) > 0 {
			t.Fatalf("asked for %+v, expected the wildcard alone", d)
		}
	})
}

// TestWildcardRestoredFirst: K16: content of other nodes counts before the answer of the control
// plane, even if that has answered for the type before, to clients that have left since: content
// that was requested because a client joins the wildcard, or shortly before.
func TestWildcardRestoredFirst(t *testing.T) {
	for name, askedBefore := range map[string]bool{"because of the client": false, "shortly before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute, Linger: time.Second})
				defer w.close()
				w.feed.AwaitOthers()
				w.client(endpoints, false, "else") // keeps the key in use
				first := w.client(clusters, true)
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Full: true, Resources: res2("a", "b")})
				expect(t, first.ask(t, Query{}), "a", "b")
				first.table.Leave(&first.w)
				time.Sleep(time.Hour) //nolint:forbidigo // virtual time
				synctest.Wait()
				w.feed.TakeDemand(false, true)

				var c *client
				if !askedBefore {
					c = w.client(clusters, true)
				}
				w.group.Renew([]Snapshot{keptSet(time.Now(), "a", "b")})
				w.feed.Asked()
				if askedBefore {
					c = w.client(clusters, true)
				}
				if d := w.feed.TakeDemand(false, true); len(d) != 1 || !d[0].WildcardChanged {
					t.Fatalf("asked for %+v, expected everything", d)
				}
				w.feed.Apply(Update{Type: clusters, Full: true})
				expect(t, c.ask(t, Query{}), "a", "b")
				time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
				expect(t, c.ask(t, Query{}), "-a", "-b")
			})
		})
	}
}

// TestNamesRestoredFirst: K16, E8: a node that has nothing of a type any more, as its clients have
// left, asks the other nodes before the control plane once a client asks for a name, and has what
// they have. With something of the type it asks at once.
func TestNamesRestoredFirst(t *testing.T) {
	for name, left := range map[string]bool{"all clients have left": true, "one has stayed": false} {
		t.Run(name, func(t *testing.T) {
			cfg := guarding
			cfg.Linger = time.Second
			inTime(t, cfg, func(t *testing.T, w *world) {
				w.feed.AwaitOthers()
				w.client(clusters, true)
				first := w.client(endpoints, false, "a")
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.apply(clusters, withEndpoints("a"), withEndpoints("b"), withEndpoints("c"))
				w.apply(endpoints, endpointSet(t, "a", 1))
				if left {
					first.table.Leave(&first.w)
				}
				pass(time.Hour)
				w.feed.TakeDemand(false, true)

				c := w.client(endpoints, false, "b", "c")
				d := w.feed.TakeDemand(false, true)
				if need, _ := w.feed.Need(); (len(d) == 0) != left || (need == NeedFirst) != left {
					t.Fatalf("asked for %+v, needs %d, expected to wait: %t", d, need, left)
				}
				if !left {
					return
				}
				w.group.Renew([]Snapshot{holds(endpoints, false, time.Now(), endpointSet(t, "b", 1), endpointSet(t, "c", 1))})
				w.feed.Asked()
				if d = w.feed.TakeDemand(false, true); len(d) != 1 || !slices.Equal(d[0].Subscribe, []string{"b", "c"}) {
					t.Fatalf("asked for %+v, expected b and c", d)
				}
				w.remove(endpoints, "b", "c")
				w.remove(clusters, "a", "b", "c")
				pass(time.Second)
				expectSees(t, c, "b", "c")
				w.check()
			})
		})
	}
}

// TestHoldGoesOn: K16: a hold continues for as long as that of the node which had it before, if
// that node has just reported it.
func TestHoldGoesOn(t *testing.T) {
	for name, tc := range map[string]struct{ left, age, hold time.Duration }{
		"it ends sooner":     {20 * time.Second, 0, 20 * time.Second},
		"it ends later":      {time.Hour, 0, time.Minute},
		"it was said before": {40 * time.Second, 20 * time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute})
				defer w.close()
				w.feed.AwaitOthers()
				c := w.client(clusters, true)
				k := keptSet(time.Now(), "a", "b")
				k.HeldBack, k.HoldUntil = true, time.Now().Add(tc.left)
				empty := keptSet(time.Now().Add(time.Second)) // newer, and not asked about the hold
				w.group.Renew([]Snapshot{empty, k})
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				time.Sleep(tc.age) //nolint:forbidigo // virtual time
				w.feed.Apply(Update{Type: clusters, Full: true})
				expect(t, c.ask(t, Query{}), "a", "b")
				time.Sleep(tc.hold - time.Millisecond) //nolint:forbidigo // virtual time
				expect(t, c.ask(t, Query{}))
				time.Sleep(2 * time.Millisecond) //nolint:forbidigo // virtual time
				expect(t, c.ask(t, Query{}), "-a", "-b")
			})
		})
	}
}

// TestHoldsWhileNobodyCanConfirm: K16: a hold that ends while the control plane is unreachable, or
// while the owner of the key has not reported what it holds back, continues: an operator may have
// fixed the control plane meanwhile.
func TestHoldsWhileNobodyCanConfirm(t *testing.T) {
	for name, tc := range map[string]struct{ away, back func(w *world) }{
		"the control plane is away": {func(w *world) { w.feed.Down(errors.New("away")) }, func(w *world) { w.feed.Up() }},
		"another node is asked":     {func(w *world) { w.feed.Borrow(true) }, func(w *world) { w.feed.Borrow(false); w.feed.Up() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{MaxRemovalPercent: 50, RemovalHold: time.Minute})
				defer w.close()
				c := w.client(clusters, true)
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.feed.Apply(Update{Type: clusters, Full: true, Resources: res2("a", "b")})
				w.feed.Apply(Update{Type: clusters, Full: true})
				expect(t, c.ask(t, Query{}), "a", "b")
				tc.away(w)
				time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time
				expect(t, c.ask(t, Query{}))
				tc.back(w)
				time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
				expect(t, c.ask(t, Query{}), "-a", "-b")
			})
		})
	}
}

// keptSet is a complete set of clusters of another node.
func keptSet(asOf time.Time, names ...string) Snapshot {
	k := Snapshot{Type: clusters, Wildcard: true, Streams: []SnapshotStream{{}}, AsOf: asOf}
	for _, r := range res2(names...) {
		k.Resources = append(k.Resources, SnapshotResource{Resource: r, Streams: 1})
	}
	return k
}

// follow makes the owner of the key serve clusters.
func (w *world) follow(names ...string) {
	w.feed.TakeDemand(true, true)
	w.feed.Up()
	w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Resources: res2(names...)})
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// TestPostponedCopy: K16: while the demand for a second stream waits for other nodes, interest ends.
// The stream that is in use is notified of that, once they were asked, with the demand for both. A
// stream that replaces both has nothing to unsubscribe from.
func TestPostponedCopy(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(w *world, c *client)
		want []string
	}{
		"a name":       {func(_ *world, c *client) { c.table.Edit(&c.w, Edit{Remove: []string{"a"}}) }, []string{"+*", "+b", "-a"}},
		"the wildcard": {func(_ *world, c *client) { c.table.Edit(&c.w, Edit{RemoveWildcard: true}) }, []string{"-*", "+a", "+b"}},
		"a name, and both": {func(w *world, c *client) {
			c.table.Edit(&c.w, Edit{Remove: []string{"a"}})
			w.feed.TakeDemand(true, true)
		}, []string{"+*", "+b"}},
		"nothing": {func(*world, *client) {}, []string{"+*", "+a", "+b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{MaxRemovalPercent: 50, Linger: -1}, func(t *testing.T, w *world) {
				w.feed.AwaitOthers()
				c := w.client(clusters, true, "a")
				w.feed.Asked()
				w.feed.TakeDemand(true, true)
				w.feed.Up()
				w.apply(clusters, res("a", "1"))
				pass(time.Hour)
				c.table.Edit(&c.w, Edit{Add: []string{"b"}})
				expectDemand(t, w, false, "+b")
				if d := w.feed.CopyDemand(true); len(d) > 0 {
					t.Fatalf("a second stream is asked for %q before the others", changesOf(d))
				}
				tc.end(w, c)
				pass(time.Second) // until the interest ends
				expectDemand(t, w, false)
				w.feed.Asked()
				d := w.feed.TakeDemand(false, true)
				got := changesOf(d)
				slices.Sort(got)
				want := slices.Sorted(slices.Values(tc.want))
				if !slices.Equal(got, want) {
					t.Fatalf("asked for %q, expected %q", got, want)
				}
				if left := tc.want[0] == "-*"; d[0].Wildcard == left || len(d[0].Names) != len(d[0].Subscribe) {
					t.Fatalf("asked for %+v", d[0])
				}
				if left := w.feed.TakeDemand(false, true); len(left) > 0 {
					t.Fatalf("asked for %q once more", changesOf(left))
				}
			})
		})
	}
}
