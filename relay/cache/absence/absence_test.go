package absence

import (
	"slices"
	"testing"
	"time"
)

func set(names ...string) map[string]struct{} {
	all := make(map[string]struct{})
	for _, n := range names {
		all[n] = struct{}{}
	}
	return all
}

// TestAssumed: an assumption about a name ends with an answer about it, its resource, or an answer to
// everything.
func TestAssumed(t *testing.T) {
	for what, end := range map[string]func(*Names){
		"an answer":  func(a *Names) { a.Answer("a") },
		"a resource": func(a *Names) { a.Arrived("a") },
		"forgotten":  func(a *Names) { a.Forget("a") },
		"all":        func(a *Names) { a.AnswerAll(); a.Assume("b") },
	} {
		var a Names
		if a.Answer("a") {
			t.Errorf("%s: it assumes something", what)
		}
		a.Assume("a")
		a.Assume("b")
		if !a.IsAssumed("a") || a.Assumed() != 2 {
			t.Errorf("%s: %d names are assumed", what, a.Assumed())
		}
		for _, names := range []map[string]struct{}{set("a"), set("c", "d", "a")} {
			if !a.AssumesAny(names) {
				t.Errorf("%s: none of %v is assumed", what, names)
			}
		}
		if end(&a); a.IsAssumed("a") || !a.IsAssumed("b") || a.AssumesAny(set("a")) || a.AssumesAny(set("a", "c")) || a.AssumesAny(nil) {
			t.Errorf("%s: assumed are %v", what, a.assumed)
		}
	}
}

// TestScanAssumed: a scan yields each name once, although names are answered and assumed meanwhile.
func TestScanAssumed(t *testing.T) {
	var a Names
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		a.Assume(name)
	}
	var got []string
	pauses := 0
	for name := range a.ScanAssumed(2, func() { pauses++ }) {
		got = append(got, name)
		a.Answer(name)
	}
	if slices.Sort(got); !slices.Equal(got, names) || pauses != 2 || a.Assumed() != 0 {
		t.Errorf("%v with %d pauses; %d are left", got, pauses, a.Assumed())
	}
	a.Assume("a")
	for range a.ScanAssumed(2, func() { t.Error("a pause before the first step is over") }) {
		break
	}
}

// TestSilent: silence about a name ends for that name, or for all.
func TestSilent(t *testing.T) {
	var a Names
	a.EndSilence("a")
	for _, name := range []string{"a", "b", "c"} {
		a.Silence(name)
	}
	a.EndSilence("a")
	if a.IsSilent("a") || !a.IsSilent("b") || a.IsAssumed("b") {
		t.Errorf("silent are %v", a.silent)
	}
	if a.EndSilences(); a.IsSilent("b") {
		t.Errorf("silent are %v", a.silent)
	}
}

// TestRemoved: a removal counts from its time on, until the resource is back.
func TestRemoved(t *testing.T) {
	at := time.Unix(1, 0)
	for what, end := range map[string]func(*Names){
		"it has arrived":   func(a *Names) { a.Arrived("a") },
		"it is sent again": func(a *Names) { a.Return("a") },
		"forgotten":        func(a *Names) { a.Forget("a") },
	} {
		var a Names
		if a.Return("a"); a.RemovedSince("a", time.Time{}) || a.HasRemovedSince(time.Time{}) {
			t.Errorf("%s: something is removed", what)
		}
		a.Remove("a", at)
		if !a.RemovedSince("a", at) || a.RemovedSince("a", at.Add(1)) || a.RemovedSince("b", at) || !a.HasRemovedSince(at) || a.HasRemovedSince(at.Add(1)) {
			t.Errorf("%s: removed are %v", what, a.removed)
		}
		if end(&a); a.HasRemovedSince(time.Time{}) {
			t.Errorf("%s: removed are %v", what, a.removed)
		}
	}
}

// TestOvertaken: what the owner has sent is newer than what others had until then.
func TestOvertaken(t *testing.T) {
	var a Names
	at := time.Unix(1, 0)
	a.Overtake("a", at)
	if !a.Overtakes("a", at) || a.Overtakes("a", at.Add(1)) || a.Overtakes("b", at) {
		t.Errorf("overtaken are %v", a.overtaken)
	}
	if a.CaughtUp(); a.Overtakes("a", at) {
		t.Errorf("overtaken are %v", a.overtaken)
	}
}
