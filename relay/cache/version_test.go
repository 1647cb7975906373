package cache

import (
	"testing"

	"xdsrelay/relay/resource"
)

// TestVersionPassesThrough: D7: the control plane's own version is used only for exactly what a
// SotW control plane sent with it; anything else gets a digest.
func TestVersionPassesThrough(t *testing.T) {
	a, b := res("a", "1"), res("b", "1")
	full := func(version string, rs ...*resource.Resource) Update {
		return Update{Type: clusters, Resources: rs, Full: true, Version: version}
	}
	for name, c := range map[string]struct {
		updates        []Update
		wildcard, some string // the versions that * and {a} get; "" means a digest
	}{
		"a full state":                  {[]Update{full("v1", a, b)}, "v1", ""},
		"of one resource":               {[]Update{full("v1", a)}, "v1", "v1"},
		"of nothing":                    {[]Update{full("v1", a), full("v2")}, "v2", "v2"},
		"without a version":             {[]Update{full("", a)}, "", ""},
		"of a delta origin":             {[]Update{{Type: clusters, Resources: []*resource.Resource{a, b}}}, "", ""},
		"no full state":                 {[]Update{{Type: clusters, Resources: []*resource.Resource{a, b}, Version: "v1"}}, "", ""},
		"content that changed":          {[]Update{full("v1", a, b), full("v2", res("a", "2"), b)}, "v2", ""},
		"the same content again (D15)":  {[]Update{full("v1", a, b), full("v2", a, b)}, "v1", ""},
		"a version used twice":          {[]Update{full("v1", a, b), full("v1", res("a", "2"), b)}, "", ""},
		"and then a fresh one":          {[]Update{full("v1", a), full("v1", res("a", "2")), full("v2", a)}, "v2", "v2"},
		"with a resource kept (C5)":     {[]Update{full("v1", a, b), {Type: clusters, Resources: []*resource.Resource{res("a", "2")}, Full: true, Keep: []string{"b"}, Version: "v2"}}, "", ""},
		"a later difference":            {[]Update{full("v1", a, b), {Type: clusters, Removed: []string{"b"}}}, "", ""},
		"a later absence (C12)":         {[]Update{full("v1", a, b), {Type: clusters, Removed: []string{"z"}, Kind: Partial}}, "v1", ""},
		"a version of a delta origin's": {[]Update{{Type: clusters, Resources: []*resource.Resource{versioned("a", "1", "v9")}}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			all, some := w.client(clusters, true), w.client(clusters, false, "a")
			w.client(clusters, false, "z")
			for _, u := range c.updates {
				w.feed.Apply(u)
			}
			for _, x := range []struct {
				*client
				want string
			}{{all, c.wildcard}, {some, c.some}} {
				got := x.ask(t, Query{Scope: FullState})
				if got.Version == "" || got.Derived != (x.want == "") || !got.Derived && got.Version != x.want {
					t.Errorf("version %q (derived %t), expected %q", got.Version, got.Derived, x.want)
				}
			}
		})
	}
}

// TestUnaskedResourcesSpoilTheVersion: C10, D7: clients do not see what the relay ignores.
func TestUnaskedResourcesSpoilTheVersion(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a")
	if n := w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", "1"), res("b", "1")}, Full: true, Version: "v1"}); n != 1 {
		t.Fatalf("%d changes, expected 1", n)
	}
	if got := c.ask(t, Query{}); !got.Derived || len(got.Resources) != 1 {
		t.Fatalf("%+v", got)
	}
	if n := w.feed.Apply(Update{Type: endpoints, Resources: []*resource.Resource{res("a", "1")}}); n != 0 {
		t.Fatalf("%d changes of a type that nobody asked for", n)
	}
}

// TestDigestsAgree: K11: two nodes that got the same content in different ways have the same
// version, and other content has another.
func TestDigestsAgree(t *testing.T) {
	one, two := start(t, Config{}), start(t, Config{})
	c1, c2 := one.client(clusters, true), two.client(clusters, false, "a", "b")
	one.apply(clusters, versioned("a", "1", "x"), versioned("b", "1", "x"))
	two.apply(clusters, versioned("b", "0", "x"), versioned("z", "1", "x"))
	two.apply(clusters, versioned("b", "1", "y"))
	two.apply(clusters, versioned("a", "1", "y"))
	v1, v2 := c1.ask(t, Query{}), c2.ask(t, Query{})
	if v1.Version != v2.Version || !v1.Derived {
		t.Errorf("%q and %q for one content", v1.Version, v2.Version)
	}
	// A delta control plane that uses one version for two contents.
	two.apply(clusters, versioned("a", "2", "y"))
	if v := c2.ask(t, Query{}); v.Version == v2.Version || len(v.Resources) != 1 {
		t.Errorf("%q stands for two contents", v.Version)
	}
}

// TestVersionSeenProvesContent: H4: a polling client may return after any number of changes, so a
// control plane's version that returns with other content is not used.
func TestVersionSeenProvesContent(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	seen := func(version, content string) string {
		w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("a", content)}, Full: true, Version: version})
		return c.table.Seen(&c.w).Version
	}
	first, second, third, again := seen("v1", "1"), seen("v2", "2"), seen("v1", "3"), seen("v4", "1")
	if first == third || first == second || first != again || first == "v1" {
		t.Errorf("%q, %q and %q for three contents, %q for the first again", first, second, third, again)
	}
	var nobody Watcher
	if s, all := c.table.Content(&nobody); s.Resources != 0 || len(all) != 0 {
		t.Errorf("somebody without a subscription sees %+v", s)
	}
}

// TestSameContentIsSilent: D15: nothing is woken, the version that clients know stays, and the
// control plane gets the one that it gave last (C8).
func TestSameContentIsSilent(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.apply(clusters, versioned("a", "1", "v1"))
	c.ask(t, Query{})
	w.nap()
	if n := w.apply(clusters, versioned("a", "1", "v2")); n != 0 || len(w.woke()) != 0 {
		t.Errorf("%d changes, %d woken", n, len(w.woke()))
	}
	if got := c.ask(t, Query{Force: NewNames([]string{"a"})}); len(got.Resources) != 1 || got.Resources[0].Version != "v1" {
		t.Errorf("%+v", got.Resources)
	}
	if held := w.feed.Held(clusters); held["a"] != "v2" {
		t.Errorf("held %v", held)
	}
}
