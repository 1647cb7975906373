package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

func expect(t *testing.T, got Changes, want ...string) {
	t.Helper()
	if s := said(got); !slices.Equal(s, want) {
		t.Fatalf("told %q, expected %q", s, want)
	}
}

// TestOnlyWhatChanged: B28, and B31 if nothing did; each client gets what it sees (B33, D12), and
// once (B29).
func TestOnlyWhatChanged(t *testing.T) {
	w := start(t, Config{})
	all, ab, none := w.client(clusters, true), w.client(clusters, false, "a", "b"), w.client(clusters, false)
	w.apply(clusters, res("a", "1"), res("b", "1"), res("c", "1"))
	expect(t, all.ask(t, Query{}), "a", "b", "c") // D13
	expect(t, ab.ask(t, Query{}), "a", "b")
	expect(t, none.ask(t, Query{}))
	w.apply(clusters, res("b", "2"))
	w.remove(clusters, "c", "never there")
	expect(t, all.ask(t, Query{}), "b", "-c") // B33
	expect(t, ab.ask(t, Query{}), "b")        // D12
	expect(t, all.ask(t, Query{}))
	w.remove(clusters, "a")
	w.apply(clusters, res("a", "1"))
	expect(t, all.ask(t, Query{}), "a") // once, though it was removed and added (B29)
}

// TestNames: a few names in a large history are looked up, without a walk through the history.
func TestNames(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "b", "a", "gone")
	w.client(endpoints, true)
	w.apply(endpoints, res("a", "1"), res("b", "1"), res("gone", "1"))
	c.ask(t, Query{})
	w.apply(endpoints, res("b", "2"))
	w.apply(endpoints, res("a", "2"))
	w.remove(endpoints, "gone")
	for i := range 100 {
		w.apply(endpoints, res(fmt.Sprint(i), "1"))
	}
	expect(t, c.ask(t, Query{}), "a", "b", "-gone")
}

// TestRejectedChangesComeAgain: B16: rejected changes are sent again, from the acknowledged
// position.
func TestRejectedChangesComeAgain(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.apply(clusters, res("a", "1"), res("b", "1"))
	c.ask(t, Query{})
	acked := c.at
	w.apply(clusters, res("a", "2"), res("b", "2"))
	expect(t, c.ask(t, Query{}), "a", "b")
	w.apply(clusters, res("b", "3"))
	c.at = acked
	expect(t, c.ask(t, Query{}), "a", "b")
}

// TestAbsentNames: B34: a client that asks for a name that is known to be absent is notified, but
// not if nothing is known of it (K13); B26: it gets the resource when that appears.
func TestAbsentNames(t *testing.T) {
	w := start(t, Config{})
	w.client(endpoints, false, "z", "y")
	if missing := w.feed.Missing(endpoints, []string{"z", "y", "x"}); !slices.Equal(missing, []string{"z", "y"}) {
		t.Fatalf("missing %q", missing)
	}
	if n := w.feed.Absent(endpoints, []string{"z", "x"}); n != 1 { // there is no interest in x (C12)
		t.Fatalf("%d changes", n)
	}
	c := w.client(endpoints, false, "z", "y")
	expect(t, c.ask(t, Query{}), "-z") // nothing is known of y (K13)
	expect(t, w.client(endpoints, true).ask(t, Query{}))
	w.apply(endpoints, res("z", "1"))
	expect(t, c.ask(t, Query{}), "z")
	if n := w.feed.Absent(endpoints, []string{"z"}); n != 0 { // it exists
		t.Fatalf("%d changes", n)
	}
}

// TestForce: B18, B35, B36: names are sent again, or reported as removed, once (B29).
func TestForce(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, true, "a", "z")
	w.feed.TakeDemand(true, false)
	w.apply(endpoints, res("a", "1"), res("b", "1"))
	c.ask(t, Query{})
	force := NewNames([]string{"a", "b", "z", "nowhere"})
	expect(t, c.ask(t, Query{Force: force}), "a", "b", "-nowhere", "-z") // D11
	named := w.client(endpoints, false, "a", "y")
	named.ask(t, Query{})
	expect(t, named.ask(t, Query{Force: NewNames([]string{"a", "b", "y"})}), "a", "-b") // y will be sent as a change (K13)
	w.apply(endpoints, res("a", "2"))
	expect(t, c.ask(t, Query{Force: force, Refresh: force}), "a", "b", "-nowhere", "-z") // B29
}

// TestForceWaitsForTheOrigin: K13: a name in addition to an answered wildcard is not absent before
// the control plane has been asked for it.
func TestForceWaitsForTheOrigin(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, true)
	w.feed.TakeDemand(true, false)
	w.apply(endpoints, res("a", "1"))
	c.ask(t, Query{})
	c.table.Edit(&c.w, Edit{Add: []string{"z"}})
	force := NewNames([]string{"z"})
	expect(t, c.ask(t, Query{Force: force}))
	w.feed.TakeDemand(false, false)
	w.apply(endpoints)
	expect(t, c.ask(t, Query{Force: force}), "-z")
}

// TestRefresh: E3: as far as they are subscribed and exist.
func TestRefresh(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "z")
	w.client(endpoints, false, "b")
	w.apply(endpoints, res("a", "1"), res("b", "1"))
	w.remove(endpoints, "z")
	c.ask(t, Query{})
	expect(t, c.ask(t, Query{Refresh: NewNames([]string{"a", "b", "z"})}), "a")
}

// TestRemovalsHeldBack: E2, E5: removed resources stay in the full state until the routes no longer
// need them.
func TestRemovalsHeldBack(t *testing.T) {
	w := start(t, Config{})
	sotw, delta := w.client(clusters, true), w.client(clusters, true)
	w.apply(clusters, res("x", "1"), res("k", "1"))
	sotw.ask(t, Query{Scope: FullState})
	before := delta.ask(t, Query{})
	w.remove(clusters, "x")
	w.apply(clusters, res("y", "1"))

	got := sotw.ask(t, Query{Scope: FullState, KeepRemoved: true})
	expect(t, got, "k", "x", "y")
	if got.Version == before.Version || !got.Derived {
		t.Errorf("version %q for old and new together", got.Version)
	}
	expect(t, sotw.ask(t, Query{Scope: FullState, KeepRemoved: true}))
	last := sotw.ask(t, Query{Scope: FullState})
	expect(t, last, "k", "y", "-x")

	expect(t, delta.ask(t, Query{KeepRemoved: true}), "y")
	got = delta.ask(t, Query{KeepRemoved: true, Force: NewNames([]string{"x"})})
	expect(t, got)
	if !slices.Equal(got.Withheld.list(), []string{"x"}) {
		t.Errorf("withheld %v", got.Withheld)
	}
	got = delta.ask(t, Query{Force: got.Withheld})
	expect(t, got, "-x")
	if got.Version != last.Version {
		t.Errorf("%q and %q for one state", got.Version, last.Version)
	}
}

// TestWholeIsSilentWithoutNews: B27, B31: the full state, if anything changed.
func TestWholeIsSilentWithoutNews(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a", "b", "z")
	w.apply(clusters, res("a", "1"), res("b", "1"))
	expect(t, c.ask(t, Query{Scope: FullState}), "a", "b")
	expect(t, c.ask(t, Query{Scope: FullState}))
	w.apply(clusters, res("b", "2"))
	expect(t, c.ask(t, Query{Scope: FullState}), "a", "b")
}

// TestTombstonesAreBounded: there are as many as resources, or the minimum number, plus one for
// each name with interest. A client that missed more must start over, except those that only ask
// for names.
func TestTombstonesAreBounded(t *testing.T) {
	w := start(t, Config{Tombstones: 10})
	all, slow, named := w.client(clusters, true), w.client(clusters, true), w.client(clusters, false, "mine", "other")
	w.apply(clusters, res("mine", "1"), res("first", "1"))
	slow.ask(t, Query{})
	named.ask(t, Query{})
	w.remove(clusters, "mine", "first")
	for i := range 1000 {
		w.apply(clusters, res(fmt.Sprint(i), "1"))
		w.remove(clusters, fmt.Sprint(i))
		all.ask(t, Query{})
		if n := all.table.info().Tombstones; n > 13 {
			t.Fatalf("%d tombstones after %d removals", n, i)
		}
	}
	if _, err := slow.table.Changes(&slow.w, Query{Since: slow.at}); !errors.Is(err, ErrTooOld) {
		t.Fatalf("%v", err)
	}
	expect(t, named.ask(t, Query{}), "-mine")
	slow.at = Start
	expect(t, slow.ask(t, Query{}))
}

// TestTombstonesOfLeftNames: D5: a lingering name keeps its tombstone, because the control plane is
// not asked again when a client returns to it.
func TestTombstonesOfLeftNames(t *testing.T) {
	w := start(t, Config{Tombstones: 1})
	w.client(clusters, true)
	c := w.client(clusters, false, "z")
	w.feed.TakeDemand(true, false)
	w.remove(clusters, "z")
	c.table.Leave(&c.w)
	for i := range 100 {
		w.apply(clusters, res(fmt.Sprint(i), "1"))
		w.remove(clusters, fmt.Sprint(i))
	}
	expect(t, w.client(clusters, false, "z").ask(t, Query{}), "-z") // B34
}

// TestPositionsDoNotGoBack: a client that joins others that are behind keeps its position.
func TestPositionsDoNotGoBack(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a")
	w.client(clusters, false, "b")
	w.apply(clusters, res("b", "1"))
	w.apply(clusters, res("a", "1"))
	c.ask(t, Query{})
	before := c.at
	c.table.Replace(&c.w, false, []string{"b"})
	expect(t, c.ask(t, Query{Force: NewNames([]string{"b"})}), "b")
	if c.at.Gen < before.Gen || c.at.Removed < before.Removed {
		t.Fatalf("from %v back to %v", before, c.at)
	}
}

// TestAliases: B38: a resource is found by its other names, and the clients that asked for those
// get it, and its removal too (B33).
func TestAliases(t *testing.T) {
	w := start(t, Config{})
	vhosts := resource.TypeOf(resource.VirtualHostURL)
	c := w.client(vhosts, false, "rc/h1")
	w.feed.Absent(vhosts, []string{"rc/h1"})
	expect(t, c.ask(t, Query{}), "-rc/h1")
	w.apply(vhosts, aliased("rc/v", "1", "rc/h1", "rc/h2"), aliased("rc/other", "1", "rc/h3"))
	expect(t, c.ask(t, Query{}), "rc/v")
	late := w.client(vhosts, false, "rc/h1", "rc/h2")
	expect(t, late.ask(t, Query{}), "rc/v") // once, and the absence is outdated
	w.apply(vhosts, aliased("rc/v", "1", "rc/h2"))
	expect(t, c.ask(t, Query{}), "-rc/v") // it is no longer an alias of this one
	expect(t, late.ask(t, Query{}), "rc/v")
	w.remove(vhosts, "rc/v")
	expect(t, late.ask(t, Query{}), "-rc/v")
}

// TestBodylessAlias: B38: an unresolvable alias is answered without a body.
func TestBodylessAlias(t *testing.T) {
	w := start(t, Config{})
	vhosts := resource.TypeOf(resource.VirtualHostURL)
	c := w.client(vhosts, false, "rc/nohost")
	w.apply(vhosts, resource.New(resource.Resource{Name: "rc/x", Aliases: []string{"rc/nohost"}}))
	expect(t, c.ask(t, Query{}), "rc/x")
}

// TestBodylessResources: C11: an old server reports a missing resource like this, unless it is a
// heartbeat.
func TestBodylessResources(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "z")
	w.apply(endpoints, res("a", "1"))
	c.ask(t, Query{})
	w.apply(endpoints, resource.New(resource.Resource{Name: "a", TTL: time.Hour}))
	expect(t, c.ask(t, Query{}))
	w.apply(endpoints, resource.New(resource.Resource{Name: "a"}), resource.New(resource.Resource{Name: "z"}))
	expect(t, c.ask(t, Query{}), "-a", "-z")
}

// TestFullStateRemoves: D3: a full state removes what it omits, but not what it could not deliver
// (C5), nor what never existed (C11).
func TestFullStateRemoves(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true, "never")
	w.apply(clusters, res("a", "1"), res("b", "1"), res("bad", "1"))
	c.ask(t, Query{})
	w.feed.Apply(Update{Type: clusters, Full: true, Resources: []*resource.Resource{res("a", "1")}, Keep: []string{"bad"}})
	expect(t, c.ask(t, Query{}), "-b")
	if h := w.feed.Held(clusters); len(h) != 2 {
		t.Fatalf("held %v", h)
	}
}
