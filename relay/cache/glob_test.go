package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"xdsrelay/relay/resource"
)

var localities = resource.TypeOf(resource.LbEndpointURL) // delta only, requested by globs

const leds = "xdstp://o/envoy.config.endpoint.v3.LbEndpoint/"

// TestGlobMembers: a glob sees one level, with its parameters and no others, and its members are
// removed under their own names (G4, G6, G7).
func TestGlobMembers(t *testing.T) {
	w := start(t, Config{})
	plain, with := w.client(localities, false, leds+"a/*"), w.client(localities, false, leds+"a/*?s=1")
	n := w.apply(localities, res(leds+"a/x", "1"), res(leds+"a/b/x", "1"), res(leds+"a/y?s=1", "1"), res(leds+"z", "1"), res("a/x", "1"))
	equal(t, "changes", n, 2) // C10
	expect(t, plain.ask(t, Query{}), leds+"a/x")
	expect(t, with.ask(t, Query{}), leds+"a/y?s=1")
	w.apply(localities, res(leds+"a/w", "1"))
	expect(t, plain.ask(t, Query{}), leds+"a/w")
	w.remove(localities, leds+"a/x")
	expect(t, plain.ask(t, Query{}), "-"+leds+"a/x")
	expect(t, with.ask(t, Query{}))
	expect(t, w.client(localities, false, leds+"a/*").ask(t, Query{}), leds+"a/w") // none of the previous content
}

// TestPlainNamesAreNoGlobs: G6: only structured names can be globs.
func TestPlainNamesAreNoGlobs(t *testing.T) {
	w := start(t, Config{})
	hosts := resource.TypeOf(resource.VirtualHostURL)
	c := w.client(hosts, false, "rc/*")
	w.apply(hosts, res("rc/a", "1"), res("rc/*", "1"))
	expect(t, c.ask(t, Query{}), "rc/*")
	w.remove(hosts, "rc/*")
	expect(t, c.ask(t, Query{}), "-rc/*")
}

// TestEmptyGlobs: G7: an empty glob is reported under its own name, when that is first known and
// when its last member is removed; K13: and not because something else was answered.
func TestEmptyGlobs(t *testing.T) {
	w := start(t, Config{})
	c, all := w.client(localities, false, leds+"a/*"), w.client(localities, true)
	w.feed.TakeDemand(true, false)
	w.apply(localities, res(leds+"b/x", "1"))
	expect(t, c.ask(t, Query{}))
	equal(t, "known", c.head().Answer == Answered, false)
	expect(t, all.ask(t, Query{}), leds+"b/x")
	equal(t, "missing", w.feed.Missing(localities, []string{leds + "a/*"}), []string{leds + "a/*"}) // C12
	w.remove(localities, leds+"a/*")
	expect(t, c.ask(t, Query{}), "-"+leds+"a/*")
	equal(t, "known", c.head().Answer == Answered, true)
	expect(t, all.ask(t, Query{}))                                                     // the client did not ask for it
	expect(t, w.client(localities, false, leds+"a/*").ask(t, Query{}), "-"+leds+"a/*") // B34

	w.apply(localities, res(leds+"a/x", "1"))
	expect(t, c.ask(t, Query{}), leds+"a/x")
	w.remove(localities, leds+"a/x")
	expect(t, c.ask(t, Query{}), "-"+leds+"a/*", "-"+leds+"a/x")
	w.apply(localities, res(leds+"a/x", "1"))
	w.remove(localities, leds+"a/x")
	w.apply(localities, res(leds+"a/y", "1"))
	expect(t, c.ask(t, Query{}), leds+"a/y", "-"+leds+"a/x") // it was empty only for a while
}

// TestSpellings: G1: names that mean the same are one subscription and one resource; the control
// plane is asked in the spelling of clients, and clients get the spelling of the control plane.
func TestSpellings(t *testing.T) {
	w := start(t, Config{})
	const ba, ab, esc = leds + "x?b=2&a=1", leds + "x?a=1&b=2", leds + "%78?b=2&a=1"
	one, other := w.client(localities, false, ba), w.client(localities, false, ab, esc)
	equal(t, "one subscription", one.head().Subscription, other.head().Subscription)
	d := w.feed.TakeDemand(false, true)
	equal(t, "asked", d[0].Subscribe, []string{ba})
	equal(t, "asked for all", d[0].Names, []string{ba})
	w.feed.Absent(localities, []string{ba})
	expect(t, one.ask(t, Query{}), "-"+ba) // in the spelling of the request
	w.apply(localities, res(esc, "1"))
	expect(t, one.ask(t, Query{}), esc)
	equal(t, "held", w.feed.Held(localities)[esc] != "", true) // C8
	w.remove(localities, ab)
	expect(t, one.ask(t, Query{}), "-"+esc)
	expect(t, one.ask(t, Query{Force: KeysOf([]string{ba})}), "-"+esc)
	one.table.Leave(&one.w)
	other.table.Replace(&other.w, false, []string{esc})
	if d := w.feed.TakeDemand(false, true); len(d) > 0 {
		t.Errorf("another spelling is news to the origin: %+v", d)
	}
}

// TestSpellingsOfStreams: each control plane gets a name in the spelling of the request, whatever
// another one has called it that was not asked (G1, G3, C9).
func TestSpellingsOfStreams(t *testing.T) {
	const canonical, asked, other = below + "x?a=1&b=2", below + "x?b=2&a=1", below + "%78?a=1&b=2"
	for _, called := range []string{canonical, asked, other} {
		w := start(t, Config{
			Streams: []OriginStream{{Origin: "plain"}, {Origin: "structured"}},
			Route: func(_ *resource.Type, n string) int {
				if resource.IsURN(n) {
					return 1
				}
				return 0
			},
		})
		c := w.client(clusters, false, asked)
		two := w.stream(1)
		equal(t, "asked", changesOf(two.TakeDemand(true, false)), []string{"+" + asked})
		w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res(called, "1")}, Differences: true}) // not requested on this stream
		wild := w.client(clusters, true)
		equal(t, "all that is asked", two.TakeDemand(true, true)[0].Names, []string{asked})
		c.table.Replace(&c.w, false, nil)
		w.expireAll(c)
		expectDemand(t, w, false, "-"+called, "+*")
		equal(t, "dropped", changesOf(two.TakeDemand(false, false)), []string{"-" + asked})
		wild.table.Leave(&wild.w)
	}
}

// TestClaimsBelowGlobs: B37 for members of a glob: they are judged once all of it is known (K13).
func TestClaimsBelowGlobs(t *testing.T) {
	w := start(t, Config{})
	c := w.client(localities, false, leds+"a/*")
	claims := []resource.Held{
		{Name: leds + "a/old?", Version: "1"}, {Name: leds + "a/%67one", Version: "1"}, {Name: leds + "a/same", Version: "1"}, {Name: leds + "b/else", Version: "1"},
	}
	send, _, rest := c.table.Reconcile(&c.w, nil, claims, false)
	equal(t, "not covered", send.list(), []string{leds + "b/else"})
	equal(t, "left open", len(rest), 3)
	gone, rest, _ := c.table.Gone(&c.w, nil, rest)
	equal(t, "gone before the answer", gone.Len(), 0)
	equal(t, "still open", len(rest), 3)
	equal(t, "known", c.head().Answer == Answered, false)
	w.feed.TakeDemand(true, false)
	w.apply(localities, versioned(leds+"a/old", "new", "2"), versioned(leds+"a/same", "same", "1"))
	equal(t, "known", c.head().Answer == Answered, true)
	gone, rest, _ = c.table.Gone(&c.w, nil, rest)
	equal(t, "gone", gone.list(), []string{leds + "a/gone"})
	equal(t, "open in the end", len(rest), 0)
	send, _, rest = c.table.Reconcile(&c.w, nil, claims, false)
	equal(t, "to tell", send.list(), []string{leds + "a/gone", leds + "a/old", leds + "b/else"})
	equal(t, "left open", len(rest), 0)
}

// TestClaimsThatAreCoveredLater: B37, K13: a resource that a client has and does not ask for counts
// as removed; if it joins a glob or the wildcard before it was sent that, the claim is open until
// these are answered.
func TestClaimsThatAreCoveredLater(t *testing.T) {
	for name, join := range map[string]Edit{"a glob": {Add: []string{leds + "a/*"}}, "the wildcard": {AddWildcard: true}} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			c := w.client(localities, false, leds+"b")
			send, at, rest := c.table.Reconcile(&c.w, nil, []resource.Held{{Name: leds + "a/x", Version: "1"}}, false)
			equal(t, "not covered", send.list(), []string{leds + "a/x"})
			equal(t, "left open", len(rest), 0)
			c.table.Edit(&c.w, join)
			c.at = at
			got := c.ask(t, Query{Force: send})
			expect(t, got)
			equal(t, "unjudged", got.Unjudged.list(), []string{leds + "a/x"})
			claims := []resource.Held{{Name: leds + "a/x"}}
			gone, rest, _ := c.table.Gone(&c.w, nil, claims)
			equal(t, "gone before the answer", gone.Len(), 0)
			equal(t, "still open", len(rest), 1)
			w.feed.TakeDemand(true, false)
			w.apply(localities, res(leds+"a/y", "1"))
			gone, rest, _ = c.table.Gone(&c.w, nil, claims)
			equal(t, "gone", gone.list(), []string{leds + "a/x"})
			equal(t, "open in the end", len(rest), 0)
			got = c.ask(t, Query{Force: gone})
			expect(t, got, leds+"a/y", "-"+leds+"a/x")
			equal(t, "unjudged in the end", got.Unjudged.Len(), 0)
		})
	}
}

// TestForgottenMembers: a client of a glob that missed removals which are no longer known has to
// start over; clients that missed none do not, whatever was added and removed elsewhere.
func TestForgottenMembers(t *testing.T) {
	w := start(t, Config{Tombstones: 4})
	behind, idle, plain := w.client(localities, false, leds+"a/*"), w.client(localities, false, leds+"b/*"), w.client(localities, false, leds+"c")
	w.apply(localities, res(leds+"a/x", "1"), res(leds+"b/x", "1"), res(leds+"c", "1"))
	for _, c := range []*client{behind, idle, plain} {
		c.ask(t, Query{})
	}
	for i := range 40 {
		name := fmt.Sprint(leds, "a/", i)
		w.apply(localities, res(name, "1"))
		w.remove(localities, name)
	}
	if _, err := behind.table.Changes(&behind.w, Query{Since: behind.at}); !errors.Is(err, ErrTooOld) {
		t.Errorf("%v, expected %v", err, ErrTooOld)
	}
	w.apply(localities, res(leds+"b/y", "1"), res(leds+"c", "2"))
	expect(t, idle.ask(t, Query{}), leds+"b/y")
	expect(t, plain.ask(t, Query{}), leds+"c")
}

// TestGlobsOfManyMembers: the cost of a few changes does not depend on how many members a glob has.
func TestGlobsOfManyMembers(t *testing.T) {
	w := start(t, Config{})
	c := w.client(localities, false, leds+"a/*")
	allocs := func(size, changes int) float64 {
		var rs []*resource.Resource
		for i := range size {
			rs = append(rs, res(fmt.Sprint(leds, "a/", i), "1"))
		}
		w.apply(localities, rs...)
		c.ask(t, Query{})
		since := c.at
		rs = rs[:0]
		for i := range changes {
			rs = append(rs, res(fmt.Sprint(leds, "a/", i), fmt.Sprint(size)))
		}
		w.apply(localities, rs...)
		return testing.AllocsPerRun(10, func() {
			c.at = since
			if got := said(c.ask(t, Query{})); len(got) != changes || !slices.Contains(got, leds+"a/0") {
				t.Fatalf("%q", got)
			}
		})
	}
	if few, many := allocs(100, 20), allocs(10_000, 20); many > few+2 {
		t.Errorf("%v allocations with 10,000 members, %v with 100", many, few)
	}
}

// TestNamesOfNobody: G2, G5: names that cannot be those of a resource of the type do not exist, and
// no control plane is asked.
func TestNamesOfNobody(t *testing.T) {
	w := start(t, Config{})
	wrong := []string{leds + "x#entry=y", "xdstp://o/envoy.config.cluster.v3.Cluster/x", leds + "%"}
	c := w.client(localities, false, append(wrong, leds+"x")...)
	equal(t, "asked", w.feed.TakeDemand(true, true)[0].Names, []string{leds + "x"})
	expect(t, c.ask(t, Query{}), "-"+wrong[1], "-"+wrong[2], "-"+wrong[0])
	equal(t, "missing", w.feed.Missing(localities, wrong), nil)
}
