package cache

import (
	"slices"
	"testing"

	"xdsrelay/relay/resource"
)

// TestWithdraws: E2, K8, K17: an answer says whether it takes something from a client: by a
// removal, by an error that may make it drop a resource, or silently by a full state. Nothing else
// needs to wait.
func TestWithdraws(t *testing.T) {
	w := start(t, Config{})
	of := func(c *client, q Query, want bool, said ...string) {
		t.Helper()
		got := c.ask(t, q)
		if expect(t, got, said...); got.Withdraws != want {
			t.Errorf("%v withdraws something: %t", said, got.Withdraws)
		}
	}
	c, whole, one := w.client(clusters, true), w.client(clusters, true), w.client(endpoints, false, "z")
	w.apply(clusters, res("a", "1"), res("b", "1"))
	of(c, Query{}, false, "a", "b")
	of(whole, Query{Scope: FullState}, false, "a", "b")
	w.apply(clusters, res("b", "2"))
	of(c, Query{}, false, "b")
	of(whole, Query{Scope: FullState}, false, "a", "b")
	w.remove(clusters, "a")
	of(c, Query{}, true, "-a")
	of(whole, Query{Scope: FullState}, true, "b", "-a")
	w.apply(clusters, res("c", "1"))
	of(whole, Query{Scope: FullState}, false, "b", "c")

	w.refuse(endpoints, refusal("z", resource.CodeUnavailable))
	of(one, Query{}, true)
	w.feed.Apply(Update{Type: endpoints, RemovedNames: []resource.About{{Name: "z", Variant: "v", Raw: []byte("z{v}")}}})
	of(one, Query{}, true)

	w.apply(clusters, resource.New(resource.Resource{Name: "b", Body: []byte("private"), DoNotCache: true}), res("d", "1"))
	of(whole, Query{Scope: FullState}, true, "c", "d")
}

// TestErrorsWaitWithRemovals: K8, E2: the resource of an error may still be shown while removals
// wait, so the error waits, too, whether it is news or asked for again; it is sent afterwards.
func TestErrorsWaitWithRemovals(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "z")
	w.apply(endpoints, res("a", "1"))
	c.ask(t, Query{})
	e := refusal("z", resource.CodeUnavailable)
	w.refuse(endpoints, e)
	w.apply(endpoints, res("a", "2"))
	got := c.ask(t, Query{KeepRemoved: true})
	expect(t, got, "a")
	hears(t, got)
	hears(t, c.ask(t, Query{}), e)

	got = c.ask(t, Query{KeepRemoved: true, Force: NewNames([]string{"z"})})
	hears(t, got)
	if !slices.Equal(got.Withheld.list(), []string{"z"}) {
		t.Fatalf("%v is to be told later", got.Withheld.list())
	}
	hears(t, c.ask(t, Query{Force: got.Withheld}), e)
}

// TestRemovalsWaitForParts: B40, E2: an answer in parts holds removals back in each of them,
// including those of forced names, and forgets none.
func TestRemovalsWaitForParts(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.apply(clusters, res("a", "1"), res("b", "1"), res("y", "1"))
	c.ask(t, Query{})
	w.remove(clusters, "a", "y")
	for _, n := range []string{"c", "d", "e", "f"} {
		w.apply(clusters, res(n, "1"))
	}
	keep := Query{KeepRemoved: true, Limit: limitOf(2), Force: NewNames([]string{"y"})}
	var withheld *Names
	for _, part := range [][]string{{"c", "d"}, {"e", "f"}} {
		got := c.ask(t, keep)
		expect(t, got, part...)
		keep.Force, withheld = got.Withheld, got.Withheld
	}
	expect(t, c.ask(t, Query{Force: withheld}), "-a", "-y")
}
