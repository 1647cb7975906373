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
	send, at, rest := c.table.Reconcile(&c.w, nil, held)
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
	if send, at, rest := c.table.Reconcile(&Watcher{}, nil, claims("a", "1")); send != nil || at != Start || len(rest) != 1 {
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
		if h := c.head(); h.Names == 0 && !h.Wildcard {
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
		send, at, rest := c.table.Reconcile(&c.w, nil, claimed)
		// A claim of a name that nobody knows keeps it from being found by the sum.
		slow, slowAt, slowRest := c.table.Reconcile(&c.w, nil, append(claims("nobody", "1"), claimed...))
		slow = slow.Without([]string{"nobody"})
		slowRest = slices.DeleteFunc(slowRest, func(h resource.Held) bool { return h.Name == "nobody" })
		sort := func(n *Names) []string { return slices.Sorted(slices.Values(n.list())) }
		if at != slowAt || !slices.Equal(sort(send), sort(slow)) || !slices.Equal(rest, slowRest) {
			t.Fatalf("%v sends %q and leaves %v; one by one, %q and %v", claimed, send.list(), rest, slow.list(), slowRest)
		}
	})
}
