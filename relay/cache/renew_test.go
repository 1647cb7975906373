package cache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

// holds makes a snapshot of a type that another node may have.
func holds(typ *resource.Type, whole bool, asOf time.Time, rs ...*resource.Resource) Snapshot {
	k := Snapshot{Type: typ, Wildcard: whole, Streams: []SnapshotStream{{}}, AsOf: asOf}
	for _, r := range rs {
		k.Resources = append(k.Resources, SnapshotResource{Resource: r, Streams: 1})
	}
	return k
}

// TestMergeKept: of the snapshots of several nodes, the newest copies are taken; the tier head
// counts more than the clock, and a resource that is missing from a newer complete set is not taken
// from an older one.
func TestMergeKept(t *testing.T) {
	old, between, now := time.Unix(1000, 0), time.Unix(1500, 0), time.Unix(2000, 0)
	behind := func(k Snapshot) Snapshot {
		k.Outdated = true
		return k
	}
	recorded := func(k Snapshot) Snapshot {
		k.Recorded = true
		return k
	}
	without := func(k Snapshot, name string) Snapshot {
		k.Absent = []string{name}
		return k
	}
	heldBack := func(k Snapshot) Snapshot {
		k.HeldBack = true
		return k
	}
	for name, tc := range map[string]struct {
		all   []Snapshot
		want  []string
		whole bool
	}{
		"one":                         {[]Snapshot{holds(clusters, true, now, res("a", "1"))}, []string{"a=1"}, true},
		"names of both":               {[]Snapshot{holds(endpoints, false, old, res("a", "1"), res("b", "1")), holds(endpoints, false, now, res("b", "2"))}, []string{"a=1", "b=2"}, false},
		"an older whole set":          {[]Snapshot{holds(clusters, true, old, res("a", "1"), res("gone", "1")), holds(clusters, true, now, res("a", "2"))}, []string{"a=2"}, true},
		"a newer part":                {[]Snapshot{holds(clusters, true, old, res("a", "1"), res("b", "1")), holds(clusters, false, now, res("a", "2"))}, []string{"a=2", "b=1"}, true},
		"an older part":               {[]Snapshot{holds(clusters, true, now, res("a", "2")), holds(clusters, false, old, res("a", "1"), res("b", "1"))}, []string{"a=2"}, true},
		"behind the tier head":        {[]Snapshot{behind(holds(endpoints, false, now, res("a", "1"))), holds(endpoints, false, old, res("a", "2"))}, []string{"a=2"}, false},
		"names that the newest lacks": {[]Snapshot{holds(endpoints, false, now, res("b", "1")), holds(endpoints, false, old, res("a", "1")), behind(holds(endpoints, false, between, res("a", "2")))}, []string{"a=2", "b=1"}, false},
		"an old record":               {[]Snapshot{recorded(holds(clusters, true, old, res("a", "1"))), behind(holds(clusters, true, now))}, nil, true},
		"a record that is newer":      {[]Snapshot{recorded(holds(clusters, true, now, res("a", "2"))), behind(holds(clusters, true, old, res("a", "1")))}, []string{"a=2"}, true},
		"all behind the tier head":    {[]Snapshot{behind(holds(endpoints, false, old, res("a", "1"))), behind(holds(endpoints, false, now, res("a", "2")))}, []string{"a=2"}, false},
		"a time that is not known":    {[]Snapshot{holds(endpoints, false, time.Time{}, res("a", "1")), holds(endpoints, false, old, res("a", "2"))}, []string{"a=2"}, false},
		"absent since":                {[]Snapshot{recorded(holds(endpoints, false, old, res("a", "1"), res("b", "1"))), without(holds(endpoints, false, now, res("b", "2")), "a")}, []string{"b=2"}, false},
		"absent before":               {[]Snapshot{without(holds(endpoints, false, old), "a"), holds(endpoints, false, now, res("a", "1"))}, []string{"a=1"}, false},
		"absent between":              {[]Snapshot{holds(endpoints, false, old, res("a", "1")), without(holds(endpoints, false, between), "a"), holds(endpoints, false, now, res("b", "1"))}, []string{"b=1"}, false},
		"absent, and held back":       {[]Snapshot{heldBack(holds(endpoints, false, old, res("a", "1"))), without(holds(endpoints, false, now), "a")}, []string{"a=1"}, false},
		"an empty set that is newer":  {[]Snapshot{holds(clusters, true, old, res("a", "1")), holds(clusters, true, now)}, nil, true},
	} {
		turned := slices.Clone(tc.all)
		slices.Reverse(turned)
		for _, all := range [][]Snapshot{tc.all, turned} {
			k := mergeSnapshots(all, nil)
			var got []string
			for _, r := range k.Resources {
				if r.Streams != 1 {
					t.Errorf("%s: %s is held by the upstream streams %b", name, r.Resource.Name, r.Streams)
				}
				got = append(got, r.Resource.Name+"="+string(r.Resource.Body))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) || k.Wildcard != tc.whole {
				t.Errorf("%s: %q, whole %t", name, got, k.Wildcard)
			}
		}
	}
}

// TestMergeWithTheHead: K12: the tier head proves that something is behind, but not that other
// content that it does not describe either is newer: there the time decides.
func TestMergeWithTheHead(t *testing.T) {
	old, now := time.Unix(1000, 0), time.Unix(2000, 0)
	for name, tc := range map[string]struct {
		head, behind, other string
		behindAt, otherAt   time.Time
		want                string
	}{
		"the other is what it describes":        {"3", "2", "3", now, old, "3"},
		"neither is, and the other is older":    {"3", "2", "1", now, old, "2"},
		"neither is, and the other is newer":    {"4", "2", "3", old, now, "3"},
		"nothing is known of what it describes": {"", "2", "1", now, old, "1"},
	} {
		var head *resource.Digest
		if tc.head != "" {
			d := resource.Digest{}.Add(res("a", tc.head).Member())
			head = &d
		}
		own := holds(clusters, true, tc.behindAt, res("a", tc.behind))
		own.Outdated = true
		other := holds(clusters, true, tc.otherAt, res("a", tc.other))
		for _, all := range [][]Snapshot{{own, other}, {other, own}} {
			if k := mergeSnapshots(all, head); len(k.Resources) != 1 || string(k.Resources[0].Resource.Body) != tc.want {
				t.Errorf("%s: %+v", name, k.Resources)
			}
		}
	}
}

// TestRestoredFromTheNewest: K12: content that a node has restored while the control plane is away,
// and that is known to be behind the tier head, does not yield to what another node restored from
// an earlier time, however often that arrives.
func TestRestoredFromTheNewest(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, HeadWait: headWait}, func(t *testing.T, w *world) {
		began := time.Now()
		pass(time.Hour)
		w.feed.Down(errOut)
		c := w.client(clusters, true)
		w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{}.Add(res("a", "3").Member())})
		first, second := holds(clusters, true, began, res("a", "1")), holds(clusters, true, began.Add(time.Minute), res("a", "2"))
		w.group.Renew([]Snapshot{first, second})
		for _, again := range []Snapshot{first, second, first} {
			w.group.Renew([]Snapshot{again})
			if got := string(c.table.entryOf("a").Res.Body); got != "2" {
				t.Fatalf("a is %q", got)
			}
		}
	})
}

// TestHeldByAnIdleNode: K12: an idle node reads no tier heads, so it does not know whether its
// content is behind: against content that another node knows to be behind, the time decides.
func TestHeldByAnIdleNode(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted bool // interest in the type, on the node that asks
		own    time.Duration
		want   string
	}{
		"it holds something older":                {true, time.Minute, "own"},
		"it holds something newer":                {true, -time.Minute, "idle"},
		"something older that nobody wants there": {false, time.Minute, "own"},
		"something newer that nobody wants there": {false, -time.Minute, "idle"},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, HeadWait: headWait}, func(t *testing.T, w *world) {
				idle := newWorld(t, Config{Linger: time.Minute, HeadWait: headWait})
				defer idle.close()
				idle.client(endpoints, false, "a")
				idle.answer(endpoints, res("a", "idle"))
				idle.group.ObserveHead(endpoints, idle.headOf(endpoints))
				idle.feed.Down(errOut)
				idle.cache.Leave(idle.group)
				others := idle.group.Snapshots()
				pass(time.Hour)
				behind := holds(endpoints, false, others[0].AsOf.Add(tc.own), res("a", "own"))
				behind.Outdated = true
				w.feed.Down(errOut)
				w.group.ObserveHead(endpoints, TierHead{Digest: resource.Digest{1}})
				if tc.wanted {
					w.client(endpoints, false, "a")
				}
				w.group.Renew(append(others, behind))
				if held := w.group.Snapshots(); string(held[0].Resources[0].Resource.Body) != tc.want {
					t.Errorf("a is %q", held[0].Resources[0].Resource.Body)
				}
			})
		})
	}
}

// TestHeldAbsences: K12: a node that has nothing left of a type passes on that the names which clients
// ask for do not exist: another node may still have what they were before.
func TestHeldAbsences(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
		old := time.Now()
		pass(time.Hour)
		knows := newWorld(t, Config{Linger: time.Minute})
		defer knows.close()
		knows.client(endpoints, false, "a")
		knows.feed.Up()
		knows.answer(endpoints, res("a", "1"))
		knows.remove(endpoints, "a")
		w.feed.Down(errOut)
		w.group.RestoreFrom(holds(endpoints, false, old, res("a", "1"), res("b", "1")))
		c := w.client(endpoints, false, "a", "b")
		if got := slices.Sorted(slices.Values(said(c.ask(t, Query{})))); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("sent %q, expected a and b", got)
		}
		w.group.Renew(knows.group.Snapshots())
		expect(t, c.ask(t, Query{}), "-a")
	})
}

// TestNeed: what a stream lacks, by its demand, its content and its connection.
func TestNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{Linger: time.Minute, Hold: time.Second, HeadWait: time.Second})
		is := func(what string, need Need, link Link) {
			t.Helper()
			if n, l := w.feed.Need(); n != need || l != link {
				t.Errorf("%s: need %d over link %d, expected %d and %d", what, n, l, need, link)
			}
		}
		is("nothing is wanted", NeedNothing, LinkConnecting)
		w.client(endpoints, false, "a")
		is("a name is wanted", NeedContent, LinkConnecting)
		w.feed.Down(errOut)
		is("the origin is out of reach", NeedContent, LinkDown)
		w.group.Renew([]Snapshot{holds(endpoints, false, time.Now(), res("a", "1"))})
		is("another node had it", NeedNewer, LinkDown)
		w.client(clusters, true)
		is("everything is wanted of another type", NeedContent, LinkDown)
		w.feed.Up()
		is("the origin is back", NeedNothing, LinkUp)
		w.feed.TakeDemand(true, true)
		w.apply(endpoints, res("a", "1"))
		w.apply(clusters, res("c", "1"))
		w.feed.Down(errOut)
		is("it has answered, and is out of reach again", NeedNothing, LinkDown)
		w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{1}, Version: "other"})
		is("the tier head is newer", NeedNewer, LinkDown)
		w.feed.Up()
		w.feed.Borrow(true)
		is("another node is followed from now on", NeedNewer, LinkConnecting)
	})
}

// TestRenew: content that was restored, or is from before the key was idle, yields to a later
// snapshot of another node, and to none that is older; what the control plane has sent on this node
// since is never replaced (K12, K14).
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{Linger: time.Minute, Hold: time.Second})
		began := time.Now()
		pass(time.Hour)
		w.feed.Down(errOut)
		w.group.RestoreFrom(holds(clusters, true, began, versioned("a", "1", "x"), res("b", "1")))
		c := w.client(clusters, true)
		expect(t, c.ask(t, Query{}), "a", "b")
		if w.group.Renew([]Snapshot{holds(clusters, true, began.Add(-time.Hour), res("a", "0"))}) {
			t.Error("something older was taken")
		}
		expect(t, c.ask(t, Query{}))
		w.group.Renew([]Snapshot{holds(clusters, true, began.Add(time.Minute), versioned("a", "1", "y"), res("c", "1"))})
		expect(t, c.ask(t, Query{}), "a", "c", "-b")
		if v := c.table.entryOf("a").Res.Version; v != "y" {
			t.Errorf("the version of a is %q", v)
		}
		expectSees(t, c, "a", "c")
		for _, k := range w.group.Snapshots() {
			if !k.AsOf.Equal(began.Add(time.Minute)) {
				t.Errorf("it is passed on as of %s", k.AsOf.Sub(began))
			}
		}
		if _, ok := c.table.Snapshot(); ok {
			t.Error("what the origin has not confirmed would be written as last known good")
		}

		w.feed.Up()
		w.answer(clusters, res("a", "3"))
		w.feed.Down(errOut)
		expectSees(t, c, "a", "c")
		w.group.Renew([]Snapshot{holds(clusters, true, time.Now().Add(time.Hour), res("a", "4"))})
		if got := string(c.table.entryOf("a").Res.Body); got != "3" {
			t.Errorf("a is %q, expected what the origin said", got)
		}

		w.cache.Leave(w.group)
		pass(time.Hour)
		since := time.Now()
		pass(time.Hour)
		w.join()
		w.feed.Down(errOut)
		w.group.Renew([]Snapshot{holds(clusters, true, since, res("a", "5"), res("c", "1"))})
		if got := string(c.table.entryOf("a").Res.Body); got != "5" {
			t.Errorf("a is %q after the key was idle, expected what another node heard meanwhile", got)
		}
	})
}

// TestRenewByTheHead: K12: content from the owner of a key yields to content that the tier head
// describes only if that head arrived after it, or if other nodes have that content from later. The
// first head that a node reads may be old, and so is each head while its owner cannot write to
// Redis.
func TestRenewByTheHead(t *testing.T) {
	const passed, old, other = "passed on", "the old head", "another head"
	for name, tc := range map[string]struct {
		steps []string
		asOf  time.Duration // of the others' snapshot, after the owner was lost
		taken bool
	}{
		"the first head, after the content":    {[]string{passed, old}, -time.Minute, false},
		"the first head, before the content":   {[]string{old, passed}, -time.Minute, false},
		"another head, before the content":     {[]string{other, old, passed}, -time.Minute, false},
		"another head, after the content":      {[]string{other, passed, old}, -time.Minute, true},
		"others lost the owner a moment later": {[]string{passed, old}, time.Second, false},
		"others have it from much later":       {[]string{passed, old}, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, HeadWait: headWait}, func(t *testing.T, w *world) {
				c := w.client(clusters, true)
				w.feed.Borrow(true)
				w.feed.Up()
				before := res("a", "old")
				for _, step := range tc.steps {
					switch step {
					case passed:
						w.feed.TakeDemand(true, true)
						w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", "new")}, Mirror: &Mirror{}})
					case old:
						w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{}.Add(before.Member())})
					case other:
						w.group.ObserveHead(clusters, TierHead{Digest: resource.Digest{}.Add(res("a", "other").Member())})
					}
				}
				w.feed.Down(errOut)
				lost := time.Now()
				pass(time.Minute)
				w.group.Renew([]Snapshot{holds(clusters, true, lost.Add(tc.asOf), before)})
				if got := string(c.table.entryOf("a").Res.Body); (got == "old") != tc.taken {
					t.Errorf("a is %q", got)
				}
			})
		})
	}
}

// TestHeldAfterTheWildcard: K12, K14: restored content whose last client has left is not a complete
// but empty set: other nodes would take it for one, and remove what their clients have.
func TestHeldAfterTheWildcard(t *testing.T) {
	for name, tc := range map[string]struct {
		left  []string // asked for by name
		whole bool
	}{
		"nothing is left": {nil, false},
		"a part is left":  {[]string{"a"}, false},
		"all is left":     {[]string{"a", "b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{Linger: time.Minute})
				defer w.close()
				w.client(endpoints, false, "e") // keeps the key in use
				all := w.client(clusters, true)
				if len(tc.left) > 0 {
					w.client(clusters, false, tc.left...)
				}
				w.feed.Down(errOut)
				w.group.RestoreFrom(keptSet(time.Now(), "a", "b"))
				expectSees(t, all, "a", "b")
				all.table.Leave(&all.w)
				pass(2 * time.Minute)
				for _, k := range w.group.Snapshots() {
					if k.Type == clusters && (k.Wildcard != tc.whole || len(k.Resources) != len(tc.left)) {
						t.Errorf("holds %d clusters, all that there are: %t; expected %d, %t", len(k.Resources), k.Wildcard, len(tc.left), tc.whole)
					}
				}
			})
		})
	}
}

// TestComparedFirst: if the control plane is unreachable, clients of restored content wait until
// other nodes were asked for something newer, and no longer than the hold time.
func TestComparedFirst(t *testing.T) {
	for name, end := range map[string]func(*world){
		"they were asked":      func(w *world) { w.feed.Compared() },
		"the hold time passes": func(*world) { pass(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, Config{Linger: time.Minute, Hold: time.Second}, func(t *testing.T, w *world) {
				w.feed.AwaitOthers()
				w.group.RestoreFrom(holds(clusters, true, time.Now(), res("a", "1")))
				c := w.client(clusters, true)
				w.feed.Down(errOut)
				pass(time.Second / 2)
				if !c.head().Held {
					t.Fatal("served before others were asked")
				}
				end(w)
				if c.head().Held {
					t.Fatal("still held")
				}
				expect(t, c.ask(t, Query{}), "a")
			})
		})
	}
}

// TestComparedAgain: K12: what was read long before a client asks for it waits for other nodes again if
// the control plane is unreachable: they may have had something newer from there since.
func TestComparedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		after  time.Duration
		held   bool
	}{
		"a moment ago":            {after: time.Second},
		"long ago":                {after: time.Minute, held: true},
		"and there are no others": {after: time.Minute, change: func(w *world) { w.group.streams[0].link.Others.Exist = false }},
		"and others were asked":   {after: time.Minute, change: func(w *world) { w.group.Renew([]Snapshot{holds(clusters, true, time.Now(), res("b", "1"))}) }},
	} {
		for kind, whole := range map[string]bool{"all": true, "by name": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				inTime(t, Config{Linger: time.Hour, Hold: time.Second}, func(t *testing.T, w *world) {
					w.client(endpoints, false, "other")
					w.feed.AwaitOthers()
					w.group.RestoreFrom(holds(clusters, true, time.Now(), res("a", "1")))
					w.feed.Down(errOut)
					w.feed.Compared()
					<-w.feed.Needs()
					pass(tc.after)
					if tc.change != nil {
						tc.change(w)
					}
					names := []string{"a"}
					if whole {
						names = nil
					}
					c := w.client(clusters, whole, names...)
					if c.head().Held != tc.held || w.feed.ComparesSince().IsZero() == tc.held {
						t.Fatalf("held: %t, others are awaited since %s; expected that: %t", c.head().Held, w.feed.ComparesSince(), tc.held)
					}
					if !tc.held {
						return
					}
					select {
					case <-w.feed.Needs():
					default:
						t.Error("the other nodes are not asked")
					}
					w.feed.Compared()
					if c.head().Held {
						t.Error("still held")
					}
				})
			})
		}
	}
}

// TestHandedOver: content that another node hands over is present when clients connect for it, and
// counts among the idle keys until then; this node's content from the control plane is better.
func TestHandedOver(t *testing.T) {
	inTime(t, Config{Linger: time.Minute, IdleBytes: 64 << 10}, func(t *testing.T, w *world) {
		large := string(make([]byte, 20<<10))
		node := &corev3.Node{Id: "other"}
		for _, key := range []aggregation.Key{"one", "two", "three", "four"} {
			w.cache.Adopt(key, node, []Snapshot{holds(clusters, true, time.Now(), res("a", large))})
		}
		if w.cache.idleBytes > 64<<10 || w.cache.GroupOf("one") != nil || w.cache.GroupOf("four") == nil {
			t.Errorf("%d bytes of idle keys", w.cache.idleBytes)
		}
		w.group = w.cache.Join("four", node)
		w.feed = <-w.feeds
		w.feed.Down(errOut)
		c := w.client(clusters, true)
		expectSees(t, c, "a")
		w.group.Renew([]Snapshot{holds(clusters, true, time.Now().Add(-time.Hour), res("a", "older"), res("b", "1"))})
		expectSees(t, c, "a")
		w.feed.Up()
		w.answer(clusters, res("b", "1"))
		w.cache.Adopt("four", node, []Snapshot{holds(clusters, true, time.Now(), res("c", "1"))})
		if c.table.core.pendingRestore != nil && len(c.table.core.pendingRestore.snapshot.Resources) > 0 && c.table.core.pendingRestore.snapshot.Resources[0].Resource.Name == "c" {
			t.Error("it was taken although the origin has answered")
		}
	})
}
