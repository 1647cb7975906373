package cache

import (
	"slices"
	"testing"

	"xdsrelay/relay/resource"
)

// TestRemovalsOf: E2, K8, K17: an answer says whether it takes something from a client: by a
// removal, by an error that may make it drop a resource, or silently by a full state. Nothing else
// needs to wait.
func TestRemovalsOf(t *testing.T) {
	w := start(t, Config{})
	of := func(c *client, q Query, want Removals, said ...string) {
		t.Helper()
		got := c.ask(t, q)
		if expect(t, got, said...); got.Removals != want {
			t.Errorf("removals in %v: %d, expected %d", said, got.Removals, want)
		}
	}
	c, whole, one := w.client(clusters, true), w.client(clusters, true), w.client(endpoints, false, "z")
	node := w.client(clusters, true)
	w.apply(clusters, res("a", "1"), res("b", "1"))
	of(c, Query{}, NoRemovals, "a", "b")
	of(whole, Query{Scope: FullState}, NoRemovals, "a", "b")
	w.apply(clusters, res("b", "2"))
	of(c, Query{}, NoRemovals, "b")
	of(whole, Query{Scope: FullState}, NoRemovals, "a", "b")
	of(node, Query{Reader: OtherNode}, NoRemovals, "a", "b")
	w.remove(clusters, "a")
	of(node, Query{Reader: OtherNode, KeepRemoved: true}, KeptFromNode)
	of(node, Query{Reader: OtherNode}, SomeRemovals, "-a")
	of(c, Query{}, SomeRemovals, "-a")
	of(whole, Query{Scope: FullState}, SomeRemovals, "b", "-a")
	w.apply(clusters, res("c", "1"))
	of(whole, Query{Scope: FullState}, NoRemovals, "b", "c")

	w.refuse(endpoints, refusal("z", resource.CodeUnavailable))
	of(one, Query{}, SomeRemovals)
	w.feed.Apply(Update{Type: endpoints, RemovedNames: []resource.About{{Name: "z", Variant: "v", Raw: []byte("z{v}")}}})
	of(one, Query{}, SomeRemovals)

	w.apply(clusters, resource.New(resource.Resource{Name: "b", Body: []byte("private"), DoNotCache: true}), res("d", "1"))
	of(whole, Query{Scope: FullState}, SomeRemovals, "c", "d")
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
