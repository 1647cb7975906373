package cache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

func claims(pairs ...string) (out []resource.Held) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, resource.Held{Name: pairs[i], Version: pairs[i+1]})
	}
	return out
}

func (c *client) reconcile(t *testing.T, held []resource.Held) (sent []string, rest []resource.Held) {
	t.Helper()
	send, at, rest := c.table.Reconcile(&c.w, nil, held, false)
	c.at = at
	return said(c.ask(t, Query{Force: send})), rest
}

// TestReconnect: B37: current resources are not sent again, others are sent, removed or uncovered
// ones are removed; B34 for names that never existed.
func TestReconnect(t *testing.T) {
	w := start(t, Config{})
	c, all := w.client(clusters, false, "a", "b", "gone", "fresh", "absent"), w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	w.apply(clusters, versioned("a", "1", "cur"), versioned("b", "1", "cur"), versioned("fresh", "1", "1"),
		versioned("other", "1", "cur"), versioned("gone", "1", "x"))
	w.remove(clusters, "gone", "absent")
	held := claims("a", "cur", "b", "old", "gone", "x", "other", "cur", "elsewhere", "1")
	sent, rest := c.reconcile(t, held)
	if want := []string{"b", "fresh", "-absent", "-elsewhere", "-gone", "-other"}; !slices.Equal(sent, want) || len(rest) > 0 {
		t.Fatalf("told %q, rest %v, expected %q", sent, rest, want)
	}
	expect(t, c.ask(t, Query{}))
	sent, rest = all.reconcile(t, held)
	if want := []string{"b", "fresh", "-elsewhere", "-gone"}; !slices.Equal(sent, want) || len(rest) > 0 {
		t.Fatalf("told %q, rest %v, expected %q", sent, rest, want)
	}
}

// TestReconnectBeforeTheOrigin: K13: a claim of which nothing is known is not judged until the
// control plane has answered; then a missing resource counts as removed.
func TestReconnectBeforeTheOrigin(t *testing.T) {
	w := start(t, Config{})
	c, named := w.client(clusters, true), w.client(clusters, false, "a")
	sent, rest := c.reconcile(t, claims("a", "1", "b", "1"))
	if len(sent) > 0 || len(rest) != 2 {
		t.Fatalf("told %q, rest %v", sent, rest)
	}
	_, namedRest := named.reconcile(t, claims("a", "1"))
	w.feed.TakeDemand(true, false)
	w.apply(clusters, versioned("b", "1", "1"))
	gone, open, _ := c.table.Gone(&c.w, nil, rest)
	expect(t, c.ask(t, Query{Force: gone}), "b", "-a")
	if len(open) > 0 {
		t.Fatalf("still open: %v", open)
	}
	if gone, open, silent := named.table.Gone(&named.w, nil, namedRest); gone != nil || len(open) > 0 || len(silent) != len(namedRest) { // C11: silence is no deletion
		t.Fatalf("gone %v, still open: %v", gone, open)
	}
	if send, at, rest := c.table.Reconcile(&Watcher{}, nil, claims("a", "1"), false); send != nil || at != Start || len(rest) != 1 {
		t.Fatalf("%v, %v, %v without a subscription", send, at, rest)
	}
}

// TestNameSets: sets of names to be sent.
func TestNameSets(t *testing.T) {
	ab, ba := NewNames([]string{"a", "b", "a"}), NewNames([]string{"b", "a"})
	c := NewNames([]string{"c"})
	if ab.Digest != ba.Digest || ab.Digest == c.Digest || len(ab.List) != 2 || NewNames(nil) != nil {
		t.Fatalf("%v, %v", ab, ba)
	}
	if ab.With(ba) != ab || ab.With(nil) != ab || (*Names)(nil).With(ab) != ab || !slices.Equal(ab.With(c).List, []string{"a", "b", "c"}) {
		t.Fatal("union")
	}
	if ab.Without([]string{"x"}) != ab || !slices.Equal(ab.Without([]string{"a"}).List, []string{"b"}) ||
		ab.Without([]string{"b", "a"}) != nil || (*Names)(nil).Without([]string{"a"}) != nil {
		t.Fatal("difference")
	}
	if !slices.Equal(ab.List, []string{"a", "b"}) {
		t.Fatal("a set was changed")
	}
}

// TestReconcileEither: B37: a client that has exactly what it should have is found by a sum over its
// claims. For all others, and for claims that only add up to the same number, the result is that of a
// comparison one by one.
func TestReconcileEither(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{})
		defer w.close()
		c := w.client(clusters, rapid.Bool().Draw(t, "wildcard"), rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "asked")...)
		if h := c.head(); h.IsEmpty() {
			return
		}
		w.feed.TakeDemand(true, false)
		there := make(map[string]bool)
		for _, n := range names {
			if there[n] = rapid.Bool().Draw(t, n); there[n] {
				w.apply(clusters, versioned(n, n, "1"))
			}
		}
		var claimed []resource.Held
		for _, n := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "claimed") {
			claimed = append(claimed, resource.Held{Name: n, Version: rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(t, "version")})
		}
		send, at, rest := c.table.Reconcile(&c.w, nil, claimed, false)
		for range 2 { // the second time with what the first one has left
			if quick, quickAt, ok := c.table.Returned(&c.w, resource.ListHeld(claimed...)); ok &&
				(quickAt != at || len(rest) > 0 || !slices.Equal(quick.list(), send.list())) {
				t.Fatalf("%v sends %q from %v, one by one %q from %v, and leaves %v", claimed, quick.list(), quickAt, send.list(), at, rest)
			}
		}
		// A claim of a name that nobody knows keeps it from being found by the sum.
		slow, slowAt, slowRest := c.table.Reconcile(&c.w, nil, append(claims("nobody", "1"), claimed...), false)
		slow = slow.Without([]string{"nobody"})
		slowRest = slices.DeleteFunc(slowRest, func(h resource.Held) bool { return h.Name == "nobody" })
		sort := func(n *Names) []string { return slices.Sorted(slices.Values(n.list())) }
		if at != slowAt || !slices.Equal(sort(send), sort(slow)) || !slices.Equal(rest, slowRest) {
			t.Fatalf("%v sends %q and leaves %v; one by one, %q and %v", claimed, send.list(), rest, slow.list(), slowRest)
		}
	})
}

// TestReturned: B37: claims of just the resources that a client should see are compared where they
// are: nothing is allocated for a claim that is right, and the names of others are sent. Any other
// claims are left to [Table.Reconcile].
func TestReturned(t *testing.T) {
	w := start(t, Config{})
	names := nameList(100)
	c, all := w.client(clusters, false, names...), w.client(clusters, true)
	w.client(clusters, false, names...)
	w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	have := func(version string) (held []resource.Held) {
		for _, n := range names {
			held = append(held, resource.Held{Name: n, Version: version})
		}
		return held
	}
	for _, n := range names {
		w.apply(clusters, versioned(n, "1", "cur"))
	}
	right := resource.ListHeld(have("cur")...)
	for what, c := range map[string]*client{"by name": c, "by the wildcard": all} {
		returned := func(held ...resource.Held) (*Names, bool) {
			send, _, ok := c.table.Returned(&c.w, resource.ListHeld(held...))
			return send, ok
		}
		for range 2 {
			if send, at, ok := c.table.Returned(&c.w, right); !ok || send != nil || at.Gen != c.head().Gen {
				t.Errorf("%s: %q from %v, %t", what, send.list(), at, ok)
			}
		}
		if n := testing.AllocsPerRun(10, func() { c.table.Returned(&c.w, right) }); n > 1 {
			t.Errorf("%s: %v allocations for claims that are right", what, n)
		}
		changed := have("cur")
		changed[7].Version = "old"
		if send, ok := returned(changed...); !ok || !slices.Equal(send.list(), names[7:8]) {
			t.Errorf("%s: %q, %t for another version", what, send.list(), ok)
		}
		twice := slices.Concat(have("cur")[1:], []resource.Held{{Name: names[5], Version: "cur"}})
		for what2, held := range map[string][]resource.Held{
			"fewer": have("cur")[1:], "more": append(have("cur"), resource.Held{Name: "x"}), "one twice": twice,
			"another": append(have("cur")[1:], resource.Held{Name: "x", Version: "cur"}),
		} {
			if send, ok := returned(held...); ok {
				t.Errorf("%s: %q for %s", what, send.list(), what2)
			}
		}
	}
	w.apply(clusters, versioned(names[7], "2", "new"))
	for range 2 {
		if send, _, ok := all.table.Returned(&all.w, right); !ok || !slices.Equal(send.list(), names[7:8]) {
			t.Errorf("after a change: %q, %t", send.list(), ok)
		}
	}
	all.table.Learn(resource.Errored{Names: names[3:4]})
	if send, _, ok := all.table.Returned(&all.w, right); ok {
		t.Errorf("%q to a client that may remember an error", send.list())
	}
}
