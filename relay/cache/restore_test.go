package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

var errOut = errors.New("out of reach")

// answer is apply for what was asked before.
func (w *world) answer(typ *resource.Type, rs ...*resource.Resource) {
	w.feed.TakeDemand(true, true)
	w.apply(typ, rs...)
}

// keep returns a snapshot of a world's table, which must not be empty.
func (w *world) keep(typ *resource.Type) Snapshot {
	w.t.Helper()
	k, ok := w.group.Table(typ).Snapshot()
	if !ok {
		w.t.Fatalf("nothing to keep of %s", typ.URL)
	}
	return k
}

// sees lists what a client is sent from the start.
func (c *client) sees(t rapid.TB) []string {
	t.Helper()
	got, err := c.table.Changes(&c.w, Query{Since: Start})
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := said(got)
	slices.Sort(all)
	return all
}

func expectSees(t *testing.T, c *client, want ...string) {
	t.Helper()
	if got := c.sees(t); !slices.Equal(got, want) {
		t.Errorf("sees %q, expected %q", got, want)
	}
}

// TestRestoredEmptySetIsKnown: that a complete set was empty is known also if it was restored, so other
// nodes send nothing that may be older.
func TestRestoredEmptySetIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		restored *Snapshot
		known    bool
	}{
		"nothing":         {nil, false},
		"names":           {new(holds(clusters, false, time.Now())), false},
		"an empty set":    {new(holds(clusters, true, time.Now())), true},
		"a set of others": {new(holds(endpoints, true, time.Now())), false},
	} {
		w := start(t, Config{})
		if tc.restored != nil {
			w.group.RestoreFrom(*tc.restored)
		}
		w.client(clusters, true)
		w.feed.TakeDemand(true, true)
		if got := w.feed.Settled(clusters); got != tc.known {
			t.Errorf("%s was restored: known: %t, expected %t", name, got, tc.known)
		}
	}
}

// TestRestoredAgain: content that is restored after all that was restored before has gone with its
// clients is as old as it says, not as old as that.
func TestRestoredAgain(t *testing.T) {
	inTime(t, Config{Linger: time.Second}, func(t *testing.T, w *world) {
		w.client(clusters, true) // keeps the key in use
		w.feed.TakeDemand(true, true)
		w.feed.Down(errOut)
		w.group.RestoreFrom(holds(endpoints, false, time.Now().Add(-time.Hour), endpointSet(t, "a", 1)))
		c := w.client(endpoints, false, "a")
		expect(t, c.ask(t, Query{}), "a")
		c.table.Leave(&c.w)
		pass(time.Minute)
		asOf := time.Now()
		w.group.RestoreFrom(holds(endpoints, false, asOf, endpointSet(t, "b", 1)))
		w.client(endpoints, false, "b")
		pass(time.Minute)
		if got := w.group.Table(endpoints).AsOf(); !got.Equal(asOf) {
			t.Errorf("as of %v, expected %v", got, asOf)
		}
	})
}

// TestRestore: a new group restores the last known good as clients ask for it, withholds it while
// the control plane may answer, and serves it if it does not; it is stale until then. Missing
// resources are removed only by the answer (K14).
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := start(t, Config{})
		before.client(clusters, true)
		before.client(endpoints, false, "a", "b", "none")
		before.feed.TakeDemand(true, true)
		before.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{versioned("x", "1", "v1"), res("y", "1")}, Full: true, Version: "7"})
		before.answer(endpoints, res("a", "1"), res("b", "1"))
		before.remove(endpoints, "none")
		before.feed.SetServer("origin:1")
		kept := []Snapshot{before.keep(clusters), before.keep(endpoints)}

		w := start(t, Config{})
		for _, k := range kept {
			w.group.RestoreFrom(k)
		}
		if len(w.group.Tables()) != 0 {
			t.Error("there are tables that nobody has asked for")
		}
		all, named := w.client(clusters, true), w.client(endpoints, false, "a", "none")
		if got := w.feed.Server(); got != "origin:1" {
			t.Errorf("the server is %q", got)
		}
		if h := all.head(); !h.Held || h.Answer != Answered {
			t.Errorf("expected all clusters to be known, and held back: %+v", h)
		}
		if h := named.head(); !h.Held || h.Answer == Answered {
			t.Errorf("expected a name to be unknown that was not there, and the rest held back: %+v", h)
		}
		if !w.cache.GroupInfos()[0].Stale {
			t.Error("not marked as stale")
		}
		w.feed.Down(errOut)
		if all.head().Held || named.head().Held {
			t.Error("held back though the origin is out of reach")
		}
		expectSees(t, all, "x", "y")
		expectSees(t, named, "a")
		if v := w.group.Table(clusters).Digest().Version; v != "7" {
			t.Errorf("the version is %q, expected the origin's", v)
		}
		got, _ := all.table.Changes(&all.w, Query{Since: Start})
		if i := slices.IndexFunc(got.Resources, func(r *resource.Resource) bool { return r.Name == "x" }); got.Resources[i].Version != "v1" {
			t.Errorf("the version of x is %q", got.Resources[i].Version)
		}
		if v := w.feed.Held(clusters)["x"]; v != noVersion {
			t.Errorf("x is claimed in version %q, which may mean something else now", v)
		}
		all.ask(t, Query{})
		for _, i := range w.group.Table(clusters).NameInfos() {
			if i.Standing != Accepted || i.Version != "7" || i.Problem == nil || i.Problem.Message != staleMessage {
				t.Errorf("%s is told of as %+v", i.Name, i)
			}
		}

		w.feed.Up()
		w.feed.TakeDemand(true, true)
		w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{versioned("x", "1", "v1"), res("z", "1")}, Full: true, Version: "8"})
		if got := all.ask(t, Query{}); !slices.Equal(said(got), []string{"z", "-y"}) {
			t.Errorf("the answer told %q, expected only the difference", said(got))
		}
		for _, i := range w.group.Table(clusters).NameInfos() {
			if i.Version != "8" || i.Problem != nil {
				t.Errorf("after the answer %s is told of as %+v", i.Name, i)
			}
		}
		if info := w.cache.GroupInfos()[0]; !info.Stale || info.Tables[0].Stale {
			t.Error("expected only the endpoints to be stale")
		}
		w.feed.Apply(Update{Type: endpoints, Resources: []*resource.Resource{res("a", "1")}})
		if w.cache.GroupInfos()[0].Stale {
			t.Error("stale though the origin has answered")
		}
		w.client(endpoints, false, "b")
		if len(w.client(endpoints, false, "b").sees(t)) > 0 {
			t.Error("what was kept is served though the origin answers")
		}
	})
}

// TestRestoreHold: restored content is withheld for the hold time at most.
func TestRestoreHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := start(t, Config{})
		before.client(clusters, true)
		before.answer(clusters, res("x", "1"))

		w := start(t, Config{Hold: time.Second})
		w.group.RestoreFrom(before.keep(clusters))
		c := w.client(clusters, true)
		w.feed.TakeDemand(true, false)
		w.feed.Up()
		pass(time.Second - 1)
		if !c.head().Held {
			t.Error("not held back")
		}
		w.nap()
		pass(1)
		if c.head().Held || len(w.woke()) == 0 {
			t.Error("held back beyond the hold time, or nobody was told")
		}
		expectSees(t, c, "x")
		if w.feed.Fresh() {
			t.Error("fresh since the hold time is over, though the origin has answered nothing")
		}
	})
}

// TestRestoreLate: last known good that arrives after clients have asked is for them, too; but what
// the control plane has sent meanwhile is better.
func TestRestoreLate(t *testing.T) {
	before := start(t, Config{})
	before.client(clusters, true)
	before.client(endpoints, false, "a", "b")
	before.answer(clusters, res("x", "1"), res("y", "1"))
	before.answer(endpoints, res("a", "1"), res("b", "1"))

	w := start(t, Config{})
	all, named := w.client(clusters, true, "x", "q"), w.client(endpoints, false, "a")
	w.feed.TakeDemand(true, true)
	w.apply(endpoints, res("a", "2"))
	w.feed.Down(errOut)
	if all.head().Answer == Answered {
		t.Error("known before anything was said")
	}
	w.nap()
	w.group.RestoreFrom(before.keep(clusters))
	w.group.RestoreFrom(before.keep(endpoints))
	if len(w.woke()) == 0 {
		t.Error("nobody was told")
	}
	expectSees(t, all, "x", "y")
	got, _ := named.table.Changes(&named.w, Query{Since: Start})
	if !slices.Equal(said(got), []string{"a"}) || string(got.Resources[0].Body) != "2" {
		t.Errorf("got %v, expected what the origin said", got.Resources)
	}
	// It is unreachable, so names that are asked for only now are restored, too.
	expectSees(t, w.client(endpoints, false, "b"), "b")
}

// TestRestoreDown: names that the control plane has not answered are restored when it becomes
// unreachable.
func TestRestoreDown(t *testing.T) {
	before := start(t, Config{})
	before.client(endpoints, false, "a", "b")
	before.answer(endpoints, res("a", "1"), res("b", "1"))

	w := start(t, Config{})
	w.group.RestoreFrom(before.keep(endpoints))
	w.client(endpoints, false, "a")
	w.feed.TakeDemand(true, true)
	w.feed.Up()
	w.apply(endpoints, res("a", "1"))
	c := w.client(endpoints, false, "b")
	expectSees(t, c)
	w.nap()
	w.feed.Down(errOut)
	expectSees(t, c, "b")
	if len(w.woke()) == 0 {
		t.Error("nobody was told")
	}
}

// TestRestoreLifetimes: resources whose TTL passed while no process ran are not restored, and
// others expire in time (F5, C14).
func TestRestoreLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := start(t, Config{})
		before.client(endpoints, false, "a", "b")
		before.answer(endpoints,
			resource.New(resource.Resource{Name: "a", Body: []byte("1"), TTL: time.Minute}),
			resource.New(resource.Resource{Name: "b", Body: []byte("1"), TTL: time.Hour}))
		k := before.keep(endpoints)
		pass(30 * time.Minute)

		w := start(t, Config{})
		w.group.RestoreFrom(k)
		c := w.client(endpoints, false, "a", "b")
		w.feed.Down(errOut)
		expectSees(t, c, "b")
		pass(31 * time.Minute)
		expectSees(t, c, "-b")
	})
}

// TestKeptUnasked: restorable content that no client has asked for stays in snapshots for the
// linger time, and is then dropped (K10).
func TestKeptUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := start(t, Config{})
		before.client(endpoints, false, "a", "b")
		before.answer(endpoints, res("a", "1"), res("b", "1"))

		w := start(t, Config{Linger: time.Minute})
		w.group.RestoreFrom(before.keep(endpoints))
		w.group.RestoreFrom(Snapshot{Type: clusters})
		w.client(endpoints, false, "a")
		if _, ok := w.group.Table(endpoints).Snapshot(); ok {
			t.Error("what is stale would be kept in place of what may be newer")
		}
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.apply(endpoints, res("a", "2"))
		if k := w.keep(endpoints); len(k.Resources) != 2 {
			t.Errorf("%d resources are kept, expected the one that nobody has asked for, too", len(k.Resources))
		}
		pass(2 * time.Minute)
		if k := w.keep(endpoints); len(k.Resources) != 1 {
			t.Errorf("%d resources are kept, expected one", len(k.Resources))
		}
		if len(w.group.pendingRestores) != 0 {
			t.Error("types that nobody asks for are held for good")
		}
	})
}

// TestRemovedSinceRestored: once the demand for a name has ended, the older copy of what the control plane
// has removed or changed since is neither passed on nor restored again: it would count as current as
// the rest of the table (K14).
func TestRemovedSinceRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{Linger: time.Minute})
		c := w.client(endpoints, false, "a", "b", "c")
		w.feed.TakeDemand(true, true)
		w.feed.Up()
		w.apply(endpoints, res("a", "2"), res("c", "2"))
		w.remove(endpoints, "b")
		w.group.RestoreFrom(holds(endpoints, false, time.Now().Add(-time.Minute), res("a", "1"), res("b", "1"), res("c", "1"), res("d", "1")))
		w.apply(endpoints, res("c", "3"))
		w.remove(endpoints, "b")
		w.feed.Down(errOut)
		c.table.Replace(&c.w, false, []string{"a"})
		pass(5 * time.Minute)
		if b := c.table.entryOf("b"); b != nil {
			t.Fatalf("the demand of b has not ended: %+v", b)
		}
		var got []string
		for _, one := range w.group.Snapshots()[0].Resources {
			got = append(got, one.Resource.Key+string(one.Resource.Body))
		}
		if slices.Sort(got); !slices.Equal(got, []string{"a2", "d1"}) {
			t.Errorf("passes on %q, expected a2 and what nothing is known of", got)
		}
		c.table.Replace(&c.w, false, []string{"a", "b", "c", "d"})
		expectSees(t, c, "a", "d")
	})
}

// TestKeptNothing: a type that no control plane has answered has no snapshot, and neither have
// private groups.
func TestKeptNothing(t *testing.T) {
	w := start(t, Config{})
	w.client(endpoints, false, "a")
	if _, ok := w.group.Table(endpoints).Snapshot(); ok {
		t.Error("kept before any answer")
	}
	g := w.cache.JoinPrivate(w.group, w.group.Node)
	defer w.cache.Leave(g)
	f := <-w.feeds
	c := &client{table: g.Table(clusters)}
	c.table.Replace(&c.w, true, nil)
	f.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("x", "1")}})
	if _, ok := c.table.Snapshot(); ok {
		t.Error("a private group is kept")
	}
	c.table.Leave(&c.w)
}

// TestRestoreProperty: whatever the content of a group, a new one that restores its snapshot shows
// the same to the same clients, with the same versions, and its tables are consistent.
func TestRestoreProperty(t *testing.T) {
	const below = "xdstp://o/envoy.config.cluster.v3.Cluster/d/"
	names := []string{"a", "b", "c", below + "e", below + "f", below + "*", "alias"}
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{}
		if rapid.Bool().Draw(t, "two legs") {
			cfg.Streams = []OriginStream{{Origin: "o"}, {Origin: "o", Names: true}}
			cfg.Route = func(_ *resource.Type, name string) int {
				if name == everything {
					return 0
				}
				return 1
			}
		}
		before := newWorld(t, cfg)
		defer before.close()
		type wish struct {
			wild  bool
			names []string
		}
		var wishes []wish
		var old []*client
		for i := range rapid.IntRange(1, 3).Draw(t, "clients") {
			v := wish{rapid.Bool().Draw(t, fmt.Sprint("wild", i)), rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID[string]).Draw(t, fmt.Sprint("names", i))}
			wishes = append(wishes, v)
			old = append(old, before.client(clusters, v.wild, v.names...))
		}
		streams := max(1, len(cfg.Streams))
		for range rapid.IntRange(1, 8).Draw(t, "updates") {
			by := rapid.IntRange(0, streams-1).Draw(t, "leg")
			if by > 0 && !before.group.hasDemand(by) {
				continue
			}
			f := before.stream(by)
			f.TakeDemand(true, true)
			var u Update
			u.Type = clusters
			for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(names[:5]), 0, 3, rapid.ID[string]).Draw(t, "resources") {
				r := resource.Resource{Name: n, Body: []byte(rapid.StringMatching("[xy]").Draw(t, "body"))}
				if rapid.Bool().Draw(t, "aliased") {
					r.Aliases, r.Extra = []string{"alias"}, []byte("alias")
				}
				u.Resources = append(u.Resources, resource.New(r))
			}
			u.Removed = rapid.SliceOfNDistinct(rapid.SampledFrom(names[:5]), 0, 1, rapid.ID[string]).Draw(t, "removed")
			if u.Full = rapid.Bool().Draw(t, "full"); u.Full {
				u.Version = rapid.StringMatching("[0-9]").Draw(t, "version")
			}
			f.Apply(u)
		}
		kept, ok := before.group.Table(clusters).Snapshot()
		if !ok {
			return
		}

		after := newWorld(t, cfg)
		defer after.close()
		late := rapid.Bool().Draw(t, "late")
		if !late {
			after.group.RestoreFrom(kept)
		}
		down := func() {
			for i := range streams {
				if i == 0 || after.group.hasDemand(i) {
					after.stream(i).Down(errOut)
				}
			}
		}
		var young []*client
		for _, v := range wishes {
			young = append(young, after.client(clusters, v.wild, v.names...))
		}
		if rapid.Bool().Draw(t, "down first") {
			down()
		}
		if late {
			after.group.RestoreFrom(kept)
		}
		down()
		present := func(c *client) (all []string) {
			_, resources := c.table.Content(&c.w)
			for _, r := range resources {
				all = append(all, r.Key+"="+string(r.Body)+"@"+r.Version)
			}
			slices.Sort(all)
			return all
		}
		for i := range old {
			if o, y := present(old[i]), present(young[i]); !slices.Equal(o, y) {
				t.Fatalf("client %d of %+v saw %q, and sees %q", i, wishes[i], o, y)
			}
			if h := young[i].head(); h.Held {
				t.Fatal("held back though nobody answers")
			}
		}
		if o, y := before.group.Table(clusters).Digest(), after.group.Table(clusters).Digest(); o.Resources != y.Resources || o.Resources > 0 && o.Version != y.Version {
			t.Fatalf("the table was %+v, and is %+v", o, y)
		}
	})
}
