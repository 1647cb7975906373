package cache

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/cache/notes"
	"xdsrelay/relay/resource"
)

// TestErrorsOfOtherNodes: a table learns for which names clients of another node may remember an
// error, if clients ask for them here (C16). The resource is sent once more, because a client may
// have arrived before; a change of it makes the error obsolete (D15).
func TestErrorsOfOtherNodes(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "late", "failing")
	w.feed.TakeDemand(true, false)
	w.apply(endpoints, versioned("a", "1", "1"), versioned("failing", "1", "1"))
	expect(t, c.ask(t, Query{}), "a", "failing")
	w.refuse(endpoints, refusal("failing", resource.CodeUnavailable))
	c.ask(t, Query{})

	c.table.Learn(erroredNames("a", "late", "failing", "nobody asks for it"))
	expect(t, c.ask(t, Query{}), "a")
	c.table.Learn(erroredNames("a", "late")) // known already
	expect(t, c.ask(t, Query{}))
	w.apply(endpoints, versioned("late", "1", "1"))
	back := w.client(endpoints, false, "a", "late", "failing")
	held := claims("a", "1", "late", "1", "failing", "1")
	if sent, _ := back.reconcile(t, held); !slices.Equal(sent, []string{"a", "late"}) {
		t.Errorf("a client was sent %q, expected what it may remember an error of", sent)
	}
	if k, _ := c.table.Snapshot(); !slices.Equal(erroredIn(k), []string{"a", "failing", "late"}) {
		t.Errorf("%q are kept", erroredIn(k))
	}
	w.apply(endpoints, versioned("a", "2", "2"), versioned("late", "1", "1"))
	if sent, _ := back.reconcile(t, claims("a", "2", "late", "1")); !slices.Equal(sent, []string{"failing", "late"}) {
		t.Errorf("after a change a client was sent %q", sent)
	}
	w.check()
}

// check verifies that the tables are consistent.
func (w *world) check() {
	w.t.Helper()
	for _, wrong := range w.cache.Check() {
		w.t.Error(wrong)
	}
}

// erroredNames are names with an unknown time of their error.
func erroredNames(names ...string) resource.Errored { return resource.Errored{Names: names} }

func erroredIn(k Snapshot) (names []string) {
	for _, r := range k.Resources {
		if r.Errored {
			names = append(names, r.Resource.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestOldStreamsAreSpared: errors that other nodes have sent concern clients that may have been
// there: a client whose stream here is older is not sent again what it has. If the time of the
// errors is unknown, all clients are.
func TestOldStreamsAreSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{})
		names := []string{"a", "b", "c", "d"}
		opened := make(map[*client]time.Time)
		join := func() *client {
			c := w.client(endpoints, false, names...)
			opened[c] = time.Now()
			return c
		}
		ask := func(c *client) Changes {
			h := c.table.State(&c.w)
			return c.ask(t, Query{Basis: h.Basis(c.at, opened[c])})
		}
		old, behind := join(), join()
		w.feed.TakeDemand(true, false)
		w.apply(endpoints, versioned("a", "1", "1"), versioned("b", "1", "1"), versioned("c", "1", "1"))
		expect(t, ask(old), "a", "b", "c")
		<-time.After(10 * time.Minute)
		late := join()
		expect(t, ask(late), "a", "b", "c")
		<-time.After(time.Minute)
		old.table.Learn(resource.Errored{Names: []string{"a"}, Age: 3 * time.Minute})
		old.table.Learn(resource.Errored{Names: []string{"b"}, Age: time.Minute})
		expect(t, ask(old))
		expect(t, ask(late), "a", "b")
		expect(t, ask(behind), "c", "a", "b")
		<-time.After(10 * time.Minute)
		late.table.Learn(resource.Errored{Names: []string{"c"}, Age: time.Minute})
		expect(t, ask(old))
		expect(t, ask(late))

		// An error of this node concerns all its clients.
		w.refuse(endpoints, refusal("a", resource.CodeUnavailable))
		ask(old)
		w.apply(endpoints, versioned("a", "1", "1"))
		expect(t, ask(old), "a")
		w.apply(endpoints, versioned("b", "2", "2"), versioned("d", "1", "1"))
		expect(t, ask(old), "b", "d")
		old.table.Learn(erroredNames("d"))
		expect(t, ask(old), "d")
		w.check()
	})
}

// TestErrorsThroughTheOwner: an error that a follower has sent reaches other followers through the
// owner. It does not age on that way, so streams that are older than it are spared everywhere.
func TestErrorsThroughTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := func() (*client, time.Time) {
			w := start(t, Config{})
			c := w.client(endpoints, false, "a")
			w.feed.TakeDemand(true, false)
			w.apply(endpoints, versioned("a", "1", "1"))
			expect(t, c.ask(t, Query{}), "a")
			return c, time.Now()
		}
		owner, _ := node()
		follower, opened := node()
		<-time.After(notes.OnTheWay + 2*time.Second)
		owner.table.Learn(resource.Errored{Names: []string{"a"}, Age: time.Second})
		var stream SharedErrors
		follower.table.Learn(owner.table.Errored(&owner.w, &stream))
		h := follower.table.State(&follower.w)
		expect(t, follower.ask(t, Query{Basis: h.Basis(follower.at, opened)}))
	})
}

// TestErrorsAreShared: another node is sent the names for which clients may remember an error, as
// far as it asks for them: each once on a stream, in messages of a bounded number of names.
func TestErrorsAreShared(t *testing.T) {
	w := start(t, Config{})
	var names []string
	var as []resource.About
	for i := range resource.MaxErrored + 1 {
		names = append(names, fmt.Sprintf("n-%04d", i))
		as = append(as, refusal(names[i], resource.CodeUnavailable))
	}
	peer := w.client(endpoints, false, names...)
	other := w.client(endpoints, false, "else")
	w.feed.TakeDemand(true, false)
	w.refuse(endpoints, append(as, refusal("else", resource.CodeUnavailable))...)

	var stream SharedErrors
	var sent []string
	for {
		some := peer.table.Errored(&peer.w, &stream)
		if len(some.Names) > resource.MaxErrored || some.Age <= 0 || stream.More() != (len(sent) == 0) {
			t.Fatalf("%d names in one message, of age %s, and more: %t", len(some.Names), some.Age, stream.More())
		}
		if sent = append(sent, some.Names...); !stream.More() {
			break
		}
	}
	if slices.Sort(sent); !slices.Equal(sent, names) {
		t.Errorf("%d names were sent, expected %d", len(sent), len(names))
	}
	if again := peer.table.Errored(&peer.w, &stream); len(again.Names) > 0 {
		t.Errorf("%q were sent twice", again)
	}
	var whole SharedErrors
	if got := w.feed.Errored(endpoints, &whole); len(got.Names) != resource.MaxErrored || !whole.More() {
		t.Errorf("%d names are sent upstream, and more: %t", len(got.Names), whole.More())
	}
	var elsewhere SharedErrors
	if got := other.table.Errored(&other.w, &elsewhere); !slices.Equal(got.Names, []string{"else"}) {
		t.Errorf("a node that asks for another name was sent %q", got)
	}
	for _, name := range []string{names[1], everything} {
		asks := w.client(endpoints, name == everything, name)
		other.table.AskErrored(&elsewhere, slices.Values([]string{names[2], name}))
		if got := asks.table.Errored(&asks.w, &elsewhere); !slices.Contains(got.Names, names[1]) {
			t.Errorf("a node that asks for %q by now was sent %q", name, got)
		}
	}
	w.apply(endpoints, versioned(names[0], "1", "1"))
	w.apply(endpoints, versioned(names[0], "2", "2")) // forgotten
	w.refuse(endpoints, refusal(names[0], resource.CodeUnavailable))
	if got := peer.table.Errored(&peer.w, &stream); !slices.Equal(got.Names, names[:1]) {
		t.Errorf("after another error %q were sent, expected %q", got, names[:1])
	}
}

// TestLearnedErrorsAreBounded: another node makes this one remember a bounded number of names, and
// forget none of its own.
func TestLearnedErrorsAreBounded(t *testing.T) {
	w := start(t, Config{Tombstones: 10})
	c := w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	w.apply(clusters, versioned("own", "1", "1"))
	w.refuse(clusters, refusal("own", resource.CodeUnavailable))
	for i := range 5 {
		var names []string
		for j := range resource.MaxErrored {
			names = append(names, fmt.Sprint(i, "-", j))
		}
		c.table.Learn(erroredNames(names...))
	}
	if n, own := c.table.remembers("own"); n > 10 || !own {
		t.Errorf("%d names, of its own: %t", n, own)
	}
	w.check()
}

// TestOldStreamsAreSparedHeldErrors: a snapshot of another node says since when its clients may
// have been sent errors, so that clients whose streams are older are not sent the resources again
// (C16).
func TestOldStreamsAreSparedHeldErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, try := range map[string]struct {
			since func() time.Time
			want  []string
		}{
			"known":   {since: func() time.Time { return time.Now().Add(-time.Second) }},
			"older":   {since: func() time.Time { return time.Now().Add(-time.Hour) }, want: []string{"a"}},
			"unknown": {since: func() time.Time { return time.Time{} }, want: []string{"a"}},
		} {
			w := start(t, Config{})
			c, opened := w.client(endpoints, false, "a"), time.Now()
			w.feed.TakeDemand(true, false)
			w.apply(endpoints, versioned("a", "1", "1"))
			expect(t, c.ask(t, Query{}), "a")
			<-time.After(2 * notes.OnTheWay)
			other := w.group.Snapshots()[0]
			other.Resources[0].Errored, other.Resources[0].ErroredSince = true, try.since()
			w.group.Renew([]Snapshot{other})
			h := c.table.State(&c.w)
			if sent := said(c.ask(t, Query{Basis: h.Basis(c.at, opened)})); !slices.Equal(sent, try.want) {
				t.Errorf("%s: %q is sent again, expected %q", name, sent, try.want)
			}
			if held := w.group.Snapshots()[0].Resources[0]; !held.Errored || !held.ErroredSince.Equal(other.Resources[0].ErroredSince) {
				t.Errorf("%s: it holds %+v", name, held)
			}
			w.check()
		}
	})
}

// TestKeptErrors: of several nodes with the same copy each may know of an error that clients
// remember; an error of another copy is obsolete (C16, K14).
func TestKeptErrors(t *testing.T) {
	old, now := time.Unix(1000, 0), time.Unix(2000, 0)
	errored := func(k Snapshot) Snapshot {
		for i := range k.Resources {
			k.Resources[i].Errored = true
		}
		return k
	}
	newest := holds(clusters, true, now, res("a", "1"), res("b", "2"))
	k := mergeSnapshots([]Snapshot{newest, errored(holds(clusters, true, old, res("a", "1"), res("b", "1")))}, nil)
	if got := erroredIn(k); !slices.Equal(got, []string{"a"}) {
		t.Errorf("clients may remember errors of %q, expected of a", got)
	}
	if k.same(&newest) {
		t.Error("what another node knows of an error is no news")
	}
	w := start(t, Config{})
	w.group.Renew([]Snapshot{k})
	if got := w.group.Snapshots(); len(got) != 1 || !slices.Equal(erroredIn(got[0]), []string{"a"}) {
		t.Errorf("it holds %+v", got)
	}
	c := w.client(clusters, false, "a") // no client has asked for the rest
	if n, a := c.table.remembers("a"); !a || n != 1 || c.table.saidOf("a") > 0 {
		t.Errorf("it remembers %d names, a: %t, which has %d problems", n, a, c.table.saidOf("a"))
	}
	w.group.Renew([]Snapshot{errored(holds(clusters, true, now, res("b", "2"), res("a", "9")))})
	if _, b := c.table.remembers("b"); !b {
		t.Error("what another node knows of an error was not learned")
	}
	w.check()
}
