package resource

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const eds = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/"

// TestCanonical: structured names are one name if their parts are the same, whatever the order of
// the parameters and the escaping; all others are kept byte for byte (G1).
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"", ""},
		{"a?b=2&a=1", "a?b=2&a=1"},
		{"XDSTP://a/T/x?b=2&a=1", "XDSTP://a/T/x?b=2&a=1"},
		{"xdstp://a/T/x", "xdstp://a/T/x"},
		{"xdstp:///T/x", "xdstp:///T/x"},
		{"xdstp://a/T/x/y/z", "xdstp://a/T/x/y/z"},
		{"xdstp://a/T/x?b=2&a=1", "xdstp://a/T/x?a=1&b=2"},
		{"xdstp://a/T/x?a=1&a=2", "xdstp://a/T/x?a=2"}, // the last counts
		{"xdstp://a/T/x?a&b=&&", "xdstp://a/T/x?a=&b="},
		{"xdstp://a/T/x?", "xdstp://a/T/x"},
		{"xdstp://a/T/x?a=1=2", "xdstp://a/T/x?a=1%3D2"},
		{"xdstp://a/T/x?a=%26%3d+", "xdstp://a/T/x?a=%26%3D+"},
		{"xdstp://a/T/", "xdstp://a/T"},
		{"xdstp://a/T//", "xdstp://a/T//"},
		{"xdstp://a/T/%78%7e%3A%2a", "xdstp://a/T/x~:*"},
		{"xdstp://a/T/outbound|80||x y", "xdstp://a/T/outbound%7C80%7C%7Cx%20y"},
		{"xdstp://a/T/ä?ö=ü", "xdstp://a/T/%C3%A4?%C3%B6=%C3%BC"},
		{"xdstp://a%2fb/T/x", "xdstp://a%2Fb/T/x"},
		{"xdstp://a/T/x%3f%23%25%5b", "xdstp://a/T/x%3F%23%25%5B"},
		{"xdstp://a/T/x%2fy", "xdstp://a/T/x/y"}, // the id is opaque, its slashes are no syntax
		{"xdstp://A/T/x", "xdstp://A/T/x"},       // authorities are opaque
		{"xdstp://a/T/x?b=1&a=2#entry=y", "xdstp://a/T/x?a=2&b=1#entry=y"},
		{"xdstp://a/T/x%", "xdstp://a/T/x%"}, // a malformed name is kept
		{"xdstp://a/T/x?b=%zz&a=1", "xdstp://a/T/x?b=%zz&a=1"},
		{"xdstp://a?b=1&a=2", "xdstp://a?b=1&a=2"},
	} {
		equal(t, "canonical form of "+c.name, Canonical(c.name), c.want)
	}
}

// TestCanonicalIsFree: canonical names cost nothing, whether they are structured or not.
func TestCanonicalIsFree(t *testing.T) {
	for _, name := range []string{"outbound|80||svc.ns", eds + "x", eds + "*?a=1&b=2&c=3"} {
		if n := testing.AllocsPerRun(100, func() { Canonical(name) }); n != 0 {
			t.Errorf("%s: %v allocations, expected none", name, n)
		}
	}
}

// TestGlobs: a glob covers one level, with exactly its parameters, and only structured names are or
// have globs (G4, G6).
func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		name, glob string
		is         bool
	}{
		{name: "rc/*"}, // a virtual host, not a glob
		{name: "*"},
		{name: "rc/host"},
		{name: "xdstp://a/T/foo/bar", glob: "xdstp://a/T/foo/*"},
		{name: "xdstp://a/T/foo/bar?s=1&t=2", glob: "xdstp://a/T/foo/*?s=1&t=2"},
		{name: "xdstp://a/T/foo/bar/baz", glob: "xdstp://a/T/foo/bar/*"},
		{name: "xdstp://a/T/foo", glob: "xdstp://a/T/*"},
		{name: "xdstp:///T/foo", glob: "xdstp:///T/*"},
		{name: "xdstp://a/T/foo/x*", glob: "xdstp://a/T/foo/*"},
		{name: "xdstp://a/T/foo/bar?s=x/y", glob: "xdstp://a/T/foo/*?s=x/y"},
		{name: "xdstp://a/T/foo/*", is: true},
		{name: "xdstp://a/T/*?s=1", is: true},
		{name: "xdstp://a/T/*/x", glob: "xdstp://a/T/*/*"},
		{name: "xdstp://a/*"}, // that is the type
		{name: "xdstp://a/T"},
		{name: "xdstp://*"},
		{name: "xdstp://a/T/foo/*#entry=x"},
		{name: "xdstp://a/T/foo/bar?s=1#entry=x"},
	} {
		equal(t, c.name+" is a glob", IsGlob(c.name), c.is)
		equal(t, "glob of "+c.name, GlobOf(c.name), c.glob)
	}
}

// TestUnservable: names of another type (G2), with directives (G5) or malformed names cannot be
// served; a list collection may be requested under the type of its members (G8).
func TestUnservable(t *testing.T) {
	for _, c := range []struct{ url, name, why string }{
		{ClusterURL, "x", ""},
		{ClusterURL, "x#entry=y", ""},
		{ClusterURL, "xdstp://a/envoy.config.cluster.v3.Cluster/x?a=b", ""},
		{ClusterURL, "xdstp://a/envoy.config.cluster.v3.Cluster/*", ""},
		{ClusterURL, "xdstp://a/envoy.config.cluster.v3.ClusterCollection/x", ""},
		{clusterListURL, "xdstp://a/envoy.config.cluster.v3.ClusterCollection/x", ""},
		{"type.example.com/x.Y", "xdstp://a/x.Y/x", ""},
		{clusterListURL, "xdstp://a/envoy.config.cluster.v3.Cluster/x", "is one of type \"envoy.config.cluster.v3.Cluster"},
		{ClusterURL, eds + "x", "is one of type \"envoy.config.endpoint.v3.ClusterLoadAssignment"},
		{ClusterURL, "xdstp://a/type.googleapis.com/envoy.config.cluster.v3.Cluster/x", "is one of type \"type.googleapis.com"},
		{EndpointURL, eds + "x#entry=y", "directives"},
		{EndpointURL, eds + "x#", "malformed"},
		{EndpointURL, eds + "%2", "malformed"},
		{EndpointURL, eds + "x?%g0=1", "malformed"},
		{EndpointURL, "xdstp://a", "malformed"},
		{EndpointURL, "xdstp://a//x", "malformed"},
	} {
		got := Unservable(TypeOf(c.url), c.name)
		if (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s as a %s: %q, expected %q in it", c.name, c.url, got, c.why)
		}
	}
}

func genURN() *rapid.Generator[URN] {
	part := rapid.StringOfN(rapid.RuneFrom([]rune("aB~%/?#&=*+:[|ä \x00")), 0, 4, -1)
	return rapid.Custom(func(t *rapid.T) URN {
		u := URN{Authority: part.Draw(t, "authority"), Type: part.Filter(func(s string) bool { return s != "" }).Draw(t, "type"), ID: part.Draw(t, "id")}
		for k, v := range rapid.MapOfN(part, part, 0, 3).Draw(t, "params") {
			u.Params = append(u.Params, Param{k, v})
		}
		slices.SortFunc(u.Params, func(a, b Param) int { return strings.Compare(a.Key, b.Key) })
		return u
	})
}

// TestURNsSurvive: whatever the parts contain, the canonical spelling has the same parts, and names
// with other parts have other spellings (G1).
func TestURNsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, o := genURN().Draw(t, "one"), genURN().Draw(t, "other")
		back, err := ParseURN(u.String())
		if err != nil || !sameURN(u, back) {
			t.Fatalf("%q is read as %+v, %v", u.String(), back, err)
		}
		if (u.String() == o.String()) != sameURN(u, o) {
			t.Fatalf("%q and %q", u.String(), o.String())
		}
	})
}

func sameURN(a, b URN) bool {
	return a.Authority == b.Authority && a.Type == b.Type && a.ID == b.ID && a.Fragment == b.Fragment && slices.Equal(a.Params, b.Params)
}

// FuzzCanonical: canonical forms are stable and equivalent to the name, and each resource has at
// most one glob (G1, G6).
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"x", eds + "x", eds + "a/*?b=2&a=1", "xdstp://%2f/T/%2A?a&a=%26#x", "xdstp://", "xdstp:///", "xdstp://a/T/x?=", eds + "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		c := Canonical(name)
		equal(t, "canonical form of "+c, Canonical(c), c)
		typ := TypeOf(EndpointURL)
		equal(t, "use of "+name, Unservable(typ, c), Unservable(typ, name))
		u, err := ParseURN(name)
		if !IsURN(name) || err != nil {
			equal(t, "what has no structure", c, name)
		} else {
			if back, err := ParseURN(c); err != nil || !sameURN(u, back) {
				t.Errorf("%q is %+v, but %q is %+v, %v", name, u, c, back, err)
			}
			equal(t, "spelling of "+name, u.String(), c)
			equal(t, "glob", IsGlob(c), u.Fragment == "" && (u.ID == "*" || strings.HasSuffix(u.ID, "/*")))
		}
		g := GlobOf(c)
		if g == "" {
			return
		}
		if IsGlob(c) || !IsGlob(g) || err == nil && Canonical(g) != g || GlobOf(g) != "" {
			t.Errorf("%q is covered by %q", c, g)
		}
	})
}
