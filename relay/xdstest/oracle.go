package xdstest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"xdsrelay/relay/xdsclient"
)

// Expected is what a client with a subscription must hold of a view once
// everything has settled: the bodies by name. Names may hold "*"; none at all
// means everything for a type that has the legacy wildcard, otherwise nothing.
func (o *StateOrigin) Expected(view, typeURL string, names ...string) map[string][]byte {
	wild := slices.Contains(names, Wildcard) || len(names) == 0 && WildcardCapable(typeURL)
	set := make(map[string]bool)
	for _, n := range names {
		set[keyOf(n)] = true
	}
	out := make(map[string][]byte)
	for n, e := range o.visible(view, typeURL, wild, set) {
		out[n] = e.body.GetValue()
	}
	return out
}

// Differences says how what a client holds differs from what it must hold of a
// view, in sorted lines; none means that it has converged. A SotW client may
// keep a resource of a type without full state that the origin has removed,
// since nothing can tell it (D6): such a client forgets it together with what
// refers to it.
func (o *StateOrigin) Differences(view string, a *Auto) []string {
	return o.DifferencesOf(view, a, func(string) bool { return true })
}

// DifferencesOf is Differences for some types only: those that come from o, where
// others come from elsewhere.
func (o *StateOrigin) DifferencesOf(view string, a *Auto, of func(typeURL string) bool) []string {
	var diff []string
	for typeURL, names := range a.Wanted() {
		if !of(typeURL) {
			continue
		}
		if len(names) == 0 {
			names = []string{""} // nothing has this name
		}
		must, held := o.Expected(view, typeURL, names...), a.Held(typeURL)
		mayKeep := !a.delta && !FullState(typeURL)
		for n, body := range must {
			h, ok := held[n]
			switch {
			case !ok:
				diff = append(diff, fmt.Sprintf("%s %q is missing", xdsclient.ShortType(typeURL), n))
			case !bytes.Equal(h.Body, body):
				diff = append(diff, fmt.Sprintf("%s %q has other content (version %q)", xdsclient.ShortType(typeURL), n, h.Version))
			}
		}
		for n := range maps.Keys(held) {
			if _, ok := must[n]; !ok && !mayKeep {
				diff = append(diff, fmt.Sprintf("%s %q should be gone", xdsclient.ShortType(typeURL), n))
			}
		}
	}
	slices.Sort(diff)
	return diff
}

// WaitConverged waits until each client holds what it must hold of the view; a
// test that changes the view meanwhile waits for the last change. The test
// fails after [Patience], naming the differences.
func (o *StateOrigin) WaitConverged(t TB, view string, clients ...*Auto) {
	t.Helper()
	for _, a := range clients {
		var diff []string
		if !poll(func() bool { diff = o.Differences(view, a); return len(diff) == 0 }, a.Changed) {
			t.Fatalf("a client of view %q did not converge within %v: %q; %s%s", view, PatienceHere(), diff, a, o.log)
		}
	}
}
