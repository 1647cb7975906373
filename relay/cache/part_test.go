package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parts reads until there is no more, and returns what each answer contained.
func (c *client) parts(t *testing.T, q Query) (all []string) {
	t.Helper()
	for {
		got := c.ask(t, q)
		all = append(all, strings.Join(said(got), " "))
		if !got.More {
			return all
		}
		q.Force, q.Refresh = got.Withheld, got.Unrefreshed
	}
}

// limitOf is the limit that n resources of the tests fit in exactly.
func limitOf(n int) int { return n * res("a", "1").WireSize() }

// TestParts: B40, D13: an answer that exceeds the limit is sent in parts, in the order of the
// changes. An update that fits stays whole, and a resource that is larger than the limit is sent
// alone.
func TestParts(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.apply(clusters, res("a", "1"), res("b", "1"))
	w.apply(clusters, res("c", "1"), res("d", "1"), res("e", "1"), res("f", "1"))
	w.apply(clusters, res("g", strings.Repeat("x", limitOf(3))))
	w.apply(clusters, res("h", "1"), res("i", "1"))
	w.apply(clusters, res("j", "1"), res("k", "1"))
	got := c.parts(t, Query{Limit: limitOf(3)})
	if want := []string{"a b", "c d e", "f", "g", "h i", "j k"}; !slices.Equal(got, want) {
		t.Fatalf("%q, expected %q", got, want)
	}
	w.apply(clusters, res("a", "2"))
	w.remove(clusters, "b")
	if got := c.parts(t, Query{Limit: limitOf(3)}); !slices.Equal(got, []string{"a -b"}) {
		t.Fatalf("what fits came as %q", got)
	}
}

// TestPartsHoldEverything: B40, B16: forced names are sent first, those to be refreshed next, and
// names without room are not forgotten.
func TestPartsHoldEverything(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	for i := range 6 {
		w.apply(clusters, res(fmt.Sprint(i), "1"))
	}
	c.ask(t, Query{})
	w.apply(clusters, res("5", "2"), res("6", "1"))
	got := c.parts(t, Query{
		Limit: limitOf(2),
		Force: NewNames([]string{"0", "1", "2", "gone"}), Refresh: NewNames([]string{"3", "4", "5"}),
	})
	if want := []string{"0 1", "2 -gone", "3 4", "5 6"}; !slices.Equal(got, want) {
		t.Fatalf("%q, expected %q", got, want)
	}
}

// TestPartsForNewClients: B34, B33: a new client that reads in parts is notified of the names that
// do not exist, and of removals while it was reading.
func TestPartsForNewClients(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a", "b", "c", "d", "z")
	w.apply(clusters, res("a", "1"), res("b", "1"))
	w.remove(clusters, "z")
	w.apply(clusters, res("c", "1"), res("d", "1"))
	if got := strings.Join(said(c.ask(t, Query{Limit: limitOf(2)})), " "); got != "a b" {
		t.Fatalf("first %q", got)
	}
	w.remove(clusters, "a")
	got := c.parts(t, Query{Limit: limitOf(2)})
	if want := []string{"-z", "c d", "-a"}; !slices.Equal(got, want) {
		t.Fatalf("%q, expected %q", got, want)
	}
}

// TestWholeIsNotDivided: B40: a full state cannot be.
func TestWholeIsNotDivided(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.apply(clusters, res("a", "1"), res("b", "1"), res("c", "1"))
	if got := c.parts(t, Query{Limit: 1, Scope: FullState}); !slices.Equal(got, []string{"a b c"}) {
		t.Fatalf("%q", got)
	}
}
