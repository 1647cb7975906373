package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/resource"
)

var standings = map[Standing]string{
	Requested: "requested", Unreachable: "unreachable", Absent: "absent", Accepted: "accepted", Rejected: "rejected", Failed: "failed",
}

// stands formats the states of names: "a=accepted@1 b=requested".
func stands(t *Table) string {
	var words []string
	for _, i := range t.NameInfos() {
		word := i.Name + "=" + standings[i.Standing]
		if i.Resource != nil {
			word += "@" + i.Version
		}
		if i.Problem != nil {
			word += "(" + i.Problem.Message + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func expectStands(t *testing.T, table *Table, want string) {
	t.Helper()
	if got := stands(table); got != want {
		t.Fatalf("got      %s\nexpected %s", got, want)
	}
}

func bad(name, why string) resource.Invalid {
	return resource.Invalid{Name: name, Err: errors.New(why)}
}

// TestNameInfos: K20: each name with content or interest has a state, and the time since when.
func TestNameInfos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		c := w.client(endpoints, false, "a", "b", "c", "d")
		w.feed.TakeDemand(true, true)
		w.apply(endpoints, versioned("a", "x", "1"))
		asked := time.Now()
		expectStands(t, c.table, "a=accepted@1 b=requested c=requested d=requested")
		w.remove(endpoints, "b")
		w.feed.Absent(endpoints, []string{"c"})
		expectStands(t, c.table, "a=accepted@1 b=absent c=absent d=requested")
		w.feed.Down(errors.New("no route"))
		expectStands(t, c.table, "a=accepted@1 b=absent c=absent d=unreachable(no route)")
		w.feed.Up()
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		w.apply(endpoints, versioned("b", "y", "2"))
		w.apply(endpoints, versioned("a", "x", "3")) // the same content with another version
		for _, i := range c.table.NameInfos() {
			since := map[string]time.Duration{"a": 0, "b": time.Minute, "c": 0}
			if d, ok := since[i.Name]; ok != !i.Changed.IsZero() || ok && i.Changed.Sub(asked).Round(time.Second) != d {
				t.Errorf("%s changed at %v, asked at %v", i.Name, i.Changed, asked)
			}
		}
		expectStands(t, c.table, "a=accepted@3 b=accepted@2 c=absent d=requested")
	})
}

// TestNameInfosOfEverything: K20: the wildcard is asked for until it is answered, and then all its
// resources are accepted.
func TestNameInfosOfEverything(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true, "named")
	expectStands(t, c.table, "*=requested named=requested")
	w.feed.TakeDemand(true, true)
	w.feed.Apply(Update{Type: clusters, Full: true, Resources: []*resource.Resource{versioned("a", "x", "1"), versioned("b", "x", "1")}})
	expectStands(t, c.table, "a=accepted@1 b=accepted@1 named=requested")
	w.remove(clusters, "a") // no client asked for it by name, so it is not reported
	expectStands(t, c.table, "b=accepted@1 named=requested")
}

// TestRejectedNames: K20: a copy that could not be used is reported with the reason, together with
// the last good one (K18), until there is a newer one, or none.
func TestRejectedNames(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "b")
	w.feed.TakeDemand(true, true)
	w.apply(endpoints, versioned("a", "x", "1"))
	reject := func(version string, full bool, names ...string) {
		u := Update{Type: endpoints, Version: version, Full: full, Keep: names}
		for _, n := range names {
			u.Rejected = append(u.Rejected, bad(n, "no good"))
		}
		w.feed.Apply(u)
	}
	reject("2", false, "a", "b", "unwanted")
	expectStands(t, c.table, "a=rejected@1(no good) b=rejected(no good)")
	if i := c.table.NameInfos()[0]; i.Problem.Version != "2" || time.Since(i.Problem.At) > time.Minute {
		t.Fatalf("problem %+v", i.Problem)
	}
	w.apply(endpoints, versioned("a", "x", "1")) // good again, though unchanged
	expectStands(t, c.table, "a=accepted@1 b=rejected(no good)")
	w.remove(endpoints, "b")
	expectStands(t, c.table, "a=accepted@1 b=absent")

	all := w.client(clusters, true)
	w.feed.TakeDemand(true, true)
	typ := func(u Update) {
		u.Type, u.Full = clusters, true
		w.feed.Apply(u)
	}
	typ(Update{Rejected: []resource.Invalid{bad("a", "no good"), bad("b", strings.Repeat("x", 5000))}, Keep: []string{"a", "b"}})
	if got := all.table.NameInfos(); len(got) != 2 || len(got[1].Problem.Message) > maxMessage+len("…") {
		t.Fatalf("%d names", len(got))
	}
	typ(Update{Rejected: []resource.Invalid{bad("b", "no good")}, Keep: []string{"b"}})
	expectStands(t, all.table, "b=rejected(no good)")
	typ(Update{})
	expectStands(t, all.table, "")
}

// TestFailedNames: K20, C16: an error from the control plane is reported, together with the copy
// that is still served, until there is something newer.
func TestFailedNames(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "b", "c")
	w.feed.TakeDemand(true, true)
	w.apply(endpoints, versioned("a", "x", "1"))
	fail := func(name string, code int32, message string) {
		w.feed.Apply(Update{Type: endpoints, Kind: Partial, Errors: []resource.About{resource.NewError(name, code, message)}})
	}
	fail("a", resource.CodeUnavailable, "busy")
	fail("b", resource.CodeNotFound, "never heard of it")
	expectStands(t, c.table, "a=failed@1(busy) b=failed(never heard of it) c=requested")
	w.feed.Apply(Update{Type: endpoints, Kind: Partial, Rejected: []resource.Invalid{bad("a", "no good")}})
	expectStands(t, c.table, "a=rejected@1(no good) b=failed(never heard of it) c=requested")
	fail("a", resource.CodeUnavailable, "busy again")
	w.apply(endpoints, versioned("b", "x", "2"))
	expectStands(t, c.table, "a=failed@1(busy again) b=accepted@2 c=requested")
}

// TestRejectedNamesAreBounded: the memory for a control plane that keeps sending unusable resources
// is bounded.
func TestRejectedNamesAreBounded(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, true, "mine")
	w.feed.TakeDemand(true, true)
	for i := range 3 * maxProblems {
		w.feed.Apply(Update{Type: endpoints, Rejected: []resource.Invalid{bad(fmt.Sprint("n", i), "no good")}})
	}
	w.feed.Apply(Update{Type: endpoints, Rejected: []resource.Invalid{bad("mine", "no good")}})
	infos := c.table.NameInfos()
	if n := len(infos); n != maxProblems+1 || !slices.ContainsFunc(infos, func(i NameInfo) bool { return i.Name == "mine" }) {
		t.Fatalf("%d names are remembered", n)
	}
}

func sightsOf(c *client) []Sight {
	if s := c.table.Subscription(&c.w); s != nil {
		return s.Sights(nil)
	}
	return nil
}

// TestSights: what a subscription sees, by name, alias or wildcard, and what it
// asks for in vain.
func TestSights(t *testing.T) {
	w := start(t, Config{})
	named, all := w.client(endpoints, false, "a", "gone", "unknown", "alias"), w.client(endpoints, true, "unknown")
	w.feed.TakeDemand(true, true)
	w.apply(endpoints, res("a", "x"), res("b", "x"), aliased("c", "x", "alias"))
	w.remove(endpoints, "gone")
	sees := func(c *client) string {
		var words []string
		for _, s := range sightsOf(c) {
			word := s.Name
			switch {
			case s.Resource == nil && s.Gen > 0:
				word += "=gone"
			case s.Resource == nil:
				word += "=unknown"
			case s.Gen == 0 || s.Changed.IsZero() || s.Resource.Name != s.Name:
				word += "=wrong"
			}
			words = append(words, word)
		}
		slices.Sort(words)
		return strings.Join(words, " ")
	}
	if got := sees(named); got != "a c gone=gone unknown=unknown" {
		t.Errorf("by name: %s", got)
	}
	if got := sees(all); got != "a b c unknown=unknown" {
		t.Errorf("everything: %s", got)
	}
	named.table.Leave(&named.w)
	if got := sees(named); got != "" {
		t.Errorf("after leaving: %s", got)
	}
}
