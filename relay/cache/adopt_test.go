package cache

import (
	"testing"

	"xdsrelay/relay/resource"
)

// TestAdopt: a list is recognized in any order, for the client that stated it before and for a new
// one, and never confused with another.
func TestAdopt(t *testing.T) {
	w := start(t, Config{})
	one, two := w.client(clusters, false), &client{table: w.group.Table(clusters)}
	adopt := func(r *client, ok bool, names ...string) {
		t.Helper()
		ed, got := r.table.Adopt(&r.w, false, resource.ListNames(names...))
		if got != ok || len(ed.Added)+len(ed.Removed) > 0 {
			t.Fatalf("%q: %t with %+v, expected %t", names, got, ed, ok)
		}
	}
	adopt(one, false, "a", "b")
	one.table.Replace(&one.w, false, []string{"a", "b"})
	adopt(one, true, "a", "b")
	adopt(one, true, "b", "a")
	adopt(one, true, "b", "a")
	for _, other := range [][]string{{}, {"a"}, {"a", "a"}, {"a", "b", "c"}, {"a", "b", "b"}, {"ab", ""}, {"b", "a", "*"}, {"xdstp://x/t/a"}} {
		adopt(one, false, other...)
	}
	adopt(one, true, "a", "b")
	adopt(two, true, "b", "a")
	if one.w.sub != two.w.sub {
		t.Fatal("two clients with the same names share nothing")
	}
	// An edit forgets the adopted list.
	one.table.Edit(&one.w, Edit{Add: []string{"c"}})
	adopt(one, false, "a", "b")
	adopt(one, true, "c", "a", "b")
	one.table.Replace(&one.w, true, nil)
	adopt(one, false, "c", "a", "b")
	adopt(one, true, "*")
	if h := one.head(); !h.HasWildcardAlone() {
		t.Fatalf("it wants %+v", h)
	}
	two.table.Leave(&two.w)
	if adopt(two, false, "a", "b"); two.w.sub != nil {
		t.Fatal("it joined what nobody wants any more")
	}
}
