package cache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/resource"
)

func refusal(name string, code int32) resource.About { return resource.NewError(name, code, "no") }

// refuse applies errors, as one response of the control plane.
func (w *world) refuse(typ *resource.Type, as ...resource.About) {
	w.feed.Apply(Update{Type: typ, Errors: as})
}

// failures are the entries of an answer.
func failures(c Changes) []string {
	out := []string{}
	for _, raw := range c.Errors {
		out = append(out, string(raw))
	}
	return out
}

func hears(t *testing.T, got Changes, want ...resource.About) {
	t.Helper()
	raws := []string{}
	for _, a := range want {
		raws = append(raws, string(a.Raw))
	}
	if !slices.Equal(failures(got), raws) {
		t.Fatalf("errors %q, expected %q", failures(got), raws)
	}
}

// TestErrorsAreSentOnce: K8, C16: errors are sent to each subscriber and to later ones, until the
// resource arrives, a newer error, or the end of the demand.
func TestErrorsAreSentOnce(t *testing.T) {
	w := start(t, Config{})
	c, other := w.client(endpoints, false, "z"), w.client(endpoints, false, "y")
	unavailable, denied := refusal("z", resource.CodeUnavailable), refusal("z", resource.CodePermissionDenied)
	w.nap()
	w.refuse(endpoints, unavailable, refusal("unasked", 14)) // C10
	if woke := w.woke(); !woke[c.w.sub] || woke[other.w.sub] {
		t.Fatalf("woken: %v", woke)
	}
	hears(t, c.ask(t, Query{}), unavailable)
	hears(t, c.ask(t, Query{}))
	w.refuse(endpoints, unavailable)
	hears(t, c.ask(t, Query{}))
	late := w.client(endpoints, false, "z")
	hears(t, late.ask(t, Query{}), unavailable)
	w.refuse(endpoints, denied)
	hears(t, c.ask(t, Query{}), denied)
	other.ask(t, Query{})
	joins := other.table.Edit(&other.w, Edit{Add: []string{"z"}})
	hears(t, other.ask(t, Query{Force: NewNames(joins.Added)}), denied) // B18
	w.apply(endpoints, res("z", "x"))
	got := c.ask(t, Query{})
	expect(t, got, "z")
	hears(t, got)
	fresh := w.client(endpoints, false, "z")
	hears(t, fresh.ask(t, Query{}))
}

// TestErrorsEndWithDemand: K8: they are forgotten together with the name.
func TestErrorsEndWithDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, Config{Linger: time.Second})
		c := w.client(endpoints, false, "z")
		w.refuse(endpoints, refusal("z", 14))
		c.table.Leave(&c.w)
		within := w.client(endpoints, false, "z")
		hears(t, within.ask(t, Query{}), refusal("z", 14))
		within.table.Leave(&within.w)
		<-time.After(2 * time.Second)
		synctest.Wait()
		hears(t, w.client(endpoints, false, "z").ask(t, Query{}))
	})
}

// TestWhatErrorsMean: C16, K8: the effect of an error on the resource itself, for delta clients,
// and for SotW clients of a full state.
func TestWhatErrorsMean(t *testing.T) {
	for name, c := range map[string]struct {
		code  int32
		delta []string // what a delta client is sent besides the error
		late  []string // and one that connects later
		sotw  []string // the full state; nil: nothing is sent
	}{
		"not found":         {resource.CodeNotFound, []string{"-a"}, []string{"b"}, []string{"b", "-a"}},
		"permission denied": {resource.CodePermissionDenied, nil, []string{"b"}, []string{"b"}},
		"unavailable":       {resource.CodeUnavailable, nil, []string{"b", "a"}, nil},
		"undefined":         {4711, nil, []string{"b", "a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			all, named, sotw := w.client(clusters, true), w.client(clusters, false, "a"), w.client(clusters, true)
			w.apply(clusters, res("b", "x"), res("a", "x"))
			all.ask(t, Query{})
			named.ask(t, Query{})
			sotw.ask(t, Query{Scope: FullState})
			e := refusal("a", c.code)
			w.refuse(clusters, e)
			for _, d := range []*client{all, named} {
				got := d.ask(t, Query{})
				expect(t, got, c.delta...)
				hears(t, got, e)
			}
			whole := sotw.ask(t, Query{Scope: FullState})
			if expect(t, whole, c.sotw...); c.sotw == nil {
				hears(t, whole) // it is in the set
			} else {
				hears(t, whole, e)
			}
			late := w.client(clusters, true)
			got := late.ask(t, Query{})
			expect(t, got, c.late...)
			if c.code == resource.CodeUnavailable || c.code == 4711 {
				hears(t, got) // not besides the resource
				got = late.ask(t, Query{})
				expect(t, got)
			}
			hears(t, got, e)
			if c.code != resource.CodePermissionDenied {
				return
			}
			w.remove(clusters, "a") // now it is removed for clients that kept it, too
			expect(t, named.ask(t, Query{}), "-a")
			w.apply(clusters, res("a", "x"))
			expect(t, named.ask(t, Query{}), "a")
		})
	}
}

// TestErrorsInAFullState: K8, C16: a full state with an error instead of a resource does not remove
// it.
func TestErrorsInAFullState(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	full := func(version string, es []resource.About, rs ...*resource.Resource) Changes {
		w.feed.Apply(Update{Type: clusters, Full: true, Version: version, Resources: rs, Errors: es})
		return c.ask(t, Query{})
	}
	expect(t, full("v1", nil, res("a", "x"), res("b", "x")), "a", "b")
	got := full("v2", []resource.About{refusal("a", 14)}, res("b", "y"))
	expect(t, got, "b")
	if !got.Derived { // D7
		t.Fatalf("version %q, but a is served beside it", got.Version)
	}
	expect(t, full("v3", []resource.About{refusal("a", resource.CodePermissionDenied)}, res("b", "y")))
	expect(t, full("v4", nil, res("b", "y")), "-a")
}

// TestErrorsAreAnswers: C16: an error ends the timer for the name, and the full state is known
// without it (K13).
func TestErrorsAreAnswers(t *testing.T) {
	w := start(t, Config{})
	c := w.client(clusters, false, "a", "z")
	w.feed.TakeDemand(true, false)
	w.feed.Apply(Update{Type: clusters, Kind: Partial, Resources: []*resource.Resource{res("a", "x")}})
	if c.head().Answer == Answered {
		t.Fatal("z is known")
	}
	w.feed.Apply(Update{Type: clusters, Kind: Partial, Errors: []resource.About{refusal("z", 14)}})
	if c.head().Answer != Answered {
		t.Fatal("z is not known")
	}
	if missing := w.feed.Missing(clusters, []string{"a", "z"}); len(missing) > 0 {
		t.Fatalf("%v are missing", missing)
	}
	if n := w.feed.Absent(clusters, []string{"z"}); n > 0 {
		t.Fatal("it counts as absent")
	}
}

// TestErrorAfterHeartbeat: K8: a client that is behind on both is sent one after the other, because
// a heartbeat is among the resources.
func TestErrorAfterHeartbeat(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a", "b")
	w.apply(endpoints, living("a", "x", 60), living("b", "x", 60))
	c.ask(t, timed)
	w.apply(endpoints, heartbeat("a", "", 60))
	w.refuse(endpoints, refusal("a", 14))
	w.apply(endpoints, heartbeat("b", "", 60))
	first, second := c.ask(t, timed), c.ask(t, timed)
	if len(first.Heartbeats) != 1 || len(first.Errors) > 0 || len(second.Heartbeats) != 1 || len(second.Errors) != 1 {
		t.Fatalf("first %+v, then %+v", first, second)
	}
	w.refuse(endpoints, refusal("b", 14))
	w.apply(endpoints, heartbeat("b", "", 60)) // it exists after all (C16), which only the resource shows (D15)
	if got := c.ask(t, timed); len(got.News) != 1 || got.News[0].Name != "b" || len(got.Errors) > 0 {
		t.Fatalf("got %+v, expected b again", got)
	}
}

// TestResponseFields: A7: removals in the form of the control plane, and fields that the relay does
// not know, are sent to clients that are sent something anyway; unless they arrived alone.
func TestResponseFields(t *testing.T) {
	w := start(t, Config{})
	c, other := w.client(endpoints, false, "a"), w.client(endpoints, false, "b")
	w.apply(endpoints, res("a", "x"), res("b", "x"))
	c.ask(t, Query{})
	other.ask(t, Query{})
	gone := resource.About{Name: "a", Raw: []byte("as it came")}
	w.feed.Apply(Update{Type: endpoints, Removed: []string{"a"}, RemovedNames: []resource.About{gone}, Extra: []byte("new")})
	got := c.ask(t, Query{})
	expect(t, got, "-a")
	if len(got.RemovedNames) != 1 || string(got.RemovedNames[0]) != "as it came" || string(got.Extra) != "new" {
		t.Fatalf("told %q and %q", got.RemovedNames, got.Extra)
	}
	if got := other.ask(t, Query{}); !got.Empty() {
		t.Fatalf("told %+v of nothing", got)
	}
	w.apply(endpoints, res("b", "y"))
	if got := other.ask(t, Query{}); string(got.Extra) != "new" {
		t.Fatalf("told %q with the next change", got.Extra)
	}
	w.apply(endpoints, res("a", "x"))
	if got := c.ask(t, Query{}); got.Extra != nil || got.RemovedNames != nil {
		t.Fatalf("told %q and %q again", got.Extra, got.RemovedNames)
	}
	w.feed.Apply(Update{Type: endpoints, Extra: []byte("alone")})
	for _, c := range []*client{c, other} {
		if got := c.ask(t, Query{}); string(got.Extra) != "alone" {
			t.Fatalf("told %q", got.Extra)
		}
	}
	if got := w.client(endpoints, false, "q").ask(t, Query{}); !got.Empty() {
		t.Fatalf("somebody new is told %+v", got)
	}
}

// TestVariants: A7, C16: an error about one variant of a name has no effect on the resource, and is
// passed on.
func TestVariants(t *testing.T) {
	w := start(t, Config{})
	c := w.client(endpoints, false, "a")
	w.apply(endpoints, res("a", "x"))
	c.ask(t, Query{})
	e := resource.About{Name: "a", Variant: "env=test", Code: resource.CodeNotFound, Raw: []byte("variant")}
	w.refuse(endpoints, e)
	got := c.ask(t, Query{})
	expect(t, got)
	hears(t, got, e)
}

// TestGiveUp: K15: names of which nothing is known are reported as unreachable, once until the
// control plane is back; a full state would read that as removal.
func TestGiveUp(t *testing.T) {
	w := start(t, Config{})
	c, whole := w.client(clusters, false, "a", "z"), w.client(clusters, false, "a", "z")
	w.apply(clusters, res("a", "x"))
	c.ask(t, Query{})
	whole.ask(t, Query{Scope: FullState})
	c.table.GiveUp(&c.w)
	if got := c.ask(t, Query{}); !got.Empty() {
		t.Fatalf("told %+v while there is hope", got)
	}
	for range 2 {
		w.feed.Down(errIdle)
		for range 2 {
			c.table.GiveUp(&c.w)
		}
		want := resource.NewError("z", resource.CodeUnavailable, errUnreachable)
		hears(t, c.ask(t, Query{}), want)
		hears(t, c.ask(t, Query{}))
		hears(t, whole.ask(t, Query{Scope: FullState}))
		hears(t, w.client(clusters, false, "z").ask(t, Query{}), want)
		if missing := w.feed.Missing(clusters, []string{"z"}); len(missing) != 1 {
			t.Fatal("the relay's own word counts as the origin's")
		}
		w.feed.Up()
		hears(t, w.client(clusters, false, "z").ask(t, Query{}))
	}
	w.apply(clusters, res("z", "x"))
	expect(t, c.ask(t, Query{}), "z")
}

// TestDeniedIsNotForgotten: K8, C16: a client may keep what the control plane refuses to show, for
// as long as it asks for it. However many other names are added and removed, it is sent the
// removal, too.
func TestDeniedIsNotForgotten(t *testing.T) {
	for name, end := range map[string]Update{
		"by name":      {Removed: []string{"a"}},
		"by absence":   {Full: true},
		"by NOT_FOUND": {Errors: []resource.About{refusal("a", resource.CodeNotFound)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{Tombstones: 2})
			c := w.client(clusters, true)
			w.apply(clusters, res("a", "x"))
			expect(t, c.ask(t, Query{}), "a")
			w.refuse(clusters, refusal("a", resource.CodePermissionDenied))
			expect(t, c.ask(t, Query{}))
			for i := range 20 {
				name := string(rune('A' + i))
				w.apply(clusters, res(name, "x"))
				w.feed.Apply(Update{Type: clusters, Removed: []string{name}})
				c.ask(t, Query{})
			}
			if n := w.group.Table(clusters).known(); n > 4 {
				t.Fatalf("%d names are known, of which 20 have gone", n)
			}
			end.Type = clusters
			w.feed.Apply(end)
			expect(t, c.ask(t, Query{}), "-a")
		})
	}
}

// TestDeniedToOthers: K8, D11: a wildcard is not affected by a resource that the control plane of
// another stream refuses to show: a client that has it without asking for it by name is sent its
// removal.
func TestDeniedToOthers(t *testing.T) {
	w := start(t, Config{Streams: []OriginStream{{}}, Route: func(_ *resource.Type, name string) int {
		if name == everything {
			return Nobody
		}
		return 0
	}})
	w.client(clusters, false, "a")
	named, all := w.client(clusters, true, "a"), w.client(clusters, true)
	w.apply(clusters, res("a", "x"))
	w.refuse(clusters, refusal("a", resource.CodePermissionDenied))
	expect(t, named.ask(t, Query{Force: NewNames([]string{"a"})}))
	expect(t, all.ask(t, Query{Force: NewNames([]string{"a"})}), "-a")
}

// TestResourceErrorsAreBounded: errors of names that only a wildcard covers are bounded.
func TestResourceErrorsAreBounded(t *testing.T) {
	w := start(t, Config{Tombstones: 10})
	w.client(clusters, true, "kept")
	w.refuse(clusters, refusal("kept", 14))
	for i := range 100 {
		w.refuse(clusters, refusal(string(rune('A'+i)), 14))
	}
	if n := w.cache.GroupInfos()[0].Tables[0].ResourceErrors; n > 12 || w.group.Table(clusters).saidOf("kept") != 1 {
		t.Fatalf("%d problems, of which %d of the name that is wanted", n, w.group.Table(clusters).saidOf("kept"))
	}
}
