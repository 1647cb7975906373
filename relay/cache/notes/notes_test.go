package notes

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

func problem(name string, code int32, stream int, kind Kind) *Problem {
	return NewProblem(resource.NewError(name, code, "a reason"), stream, kind)
}

// TestNotesAgainstModel: C16: of each stream and name there is the newest error and the newest removal,
// in the order in which they were added, until the name is forgotten.
func TestNotesAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type slot struct {
			name   string
			stream int
			err    bool
		}
		n, model, note := New(), make(map[slot]*Problem), uint64(0)
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				p := problem(names.Draw(t, "name"), int32(rapid.IntRange(1, 3).Draw(t, "code")), rapid.IntRange(0, 1).Draw(t, "stream"), Kind(rapid.IntRange(0, 2).Draw(t, "kind")))
				at := slot{p.Name, p.Stream, p.Kind != Removal}
				old := model[at]
				if known := old != nil && old.Kind == p.Kind && string(old.About.Raw) == string(p.About.Raw); n.Has(p) != known {
					t.Fatalf("%+v is known: %t", p.About, !known)
				}
				note += uint64(rapid.IntRange(1, 3).Draw(t, "note"))
				n.Add(p, note)
				model[at] = p
			},
			"drop": func(t *rapid.T) {
				for at, p := range model {
					n.Drop(p)
					delete(model, at)
					return
				}
			},
			"forget": func(t *rapid.T) {
				name, failed := names.Draw(t, "name"), false
				maps.DeleteFunc(model, func(at slot, p *Problem) bool {
					failed = failed || at.name == name && at.err
					return at.name == name
				})
				if got := n.Forget(name); got != failed {
					t.Fatalf("%q had an error: %t, expected %t", name, got, failed)
				}
			},
			"reap": func(t *rapid.T) {
				limit := rapid.IntRange(0, 4).Draw(t, "limit")
				old := slices.SortedFunc(maps.Values(model), func(p, q *Problem) int { return int(p.note) - int(q.note) })
				n.Reap(limit, func(name string) bool { return name == "a" })
				for _, p := range old {
					if len(model) > limit && p.Name != "a" {
						delete(model, slot{p.Name, p.Stream, p.IsError()})
					}
				}
			},
			"": func(t *rapid.T) {
				if wrong := n.Check(note, func(int, string) bool { return true }); len(wrong) > 0 {
					t.Fatal(wrong)
				}
				want, own := slices.SortedFunc(maps.Values(model), func(p, q *Problem) int { return int(q.note) - int(p.note) }), 0
				for p := n.Newest(); p != nil; p = p.Older() {
					if len(want) == 0 || p != want[0] {
						t.Fatalf("%v is out of place", p.About)
					}
					want = want[1:]
					if p.Kind == OwnError {
						own++
					}
				}
				if len(want) > 0 || n.Len() != len(model) || n.Own() != own {
					t.Fatalf("%v are missing; %d and %d are counted", want, n.Len(), n.Own())
				}
				for _, name := range []string{"a", "b", "c"} {
					answer := model[slot{name, 1, true}]
					_, failed := n.Answer(name, func(stream int) bool { return stream == 1 })
					if failed != (answer != nil && answer.Kind == Error) || n.HasError(name) != (answer != nil || model[slot{name, 0, true}] != nil) {
						t.Fatalf("%q has an error: %t, and from stream 1: %t", name, n.HasError(name), failed)
					}
				}
			},
		})
	})
}

// TestSharedErrors: C16: another node is sent all names that it covers, also those that it covers only
// later, and none more often than it asks for the name.
func TestSharedErrors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, shared, now := NewErrored(), Shared{}, time.Unix(1e9, 0)
		has, covered := make(map[string]bool), make(map[string]bool)
		owes, asked := make(map[string]bool), make(map[string]int) // since the last message
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		const most = 3
		t.Repeat(map[string]func(*rapid.T){
			"remember": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if has[name] {
					return
				}
				if len(has) >= most {
					clear(has)
					clear(owes)
				}
				e.Remember(name, now, most)
				has[name], owes[name] = true, covered[name]
			},
			"dismiss": func(t *rapid.T) {
				name := names.Draw(t, "name")
				e.Dismiss(name, rapid.IntRange(0, 2).Draw(t, "spare"))
				delete(has, name)
				delete(owes, name)
			},
			"ask": func(t *rapid.T) {
				name := names.Draw(t, "name")
				covered[name] = true
				owes[name] = has[name]
				asked[name]++
				shared.Ask(&e, slices.Values([]string{name}), func(string) bool { return false }, 1, func() {})
			},
			"next": func(t *rapid.T) {
				now = now.Add(time.Second)
				got := shared.Next(&e, func(name string) bool { return covered[name] }, now, 1, func() {})
				for _, name := range got.Names {
					if !has[name] || !covered[name] {
						t.Fatalf("%q is sent: it is known: %t, and covered: %t", name, has[name], covered[name])
					}
				}
				for name := range has {
					n := len(slices.DeleteFunc(slices.Clone(got.Names), func(o string) bool { return o != name }))
					if owes[name] != (n > 0) || n > 1+asked[name] {
						t.Fatalf("%q is sent %d times, though asked for %d times; it has to be: %t", name, n, asked[name], owes[name])
					}
				}
				clear(owes)
				clear(asked)
				if shared.More() {
					t.Fatal("more is to come")
				}
			},
			"": func(t *rapid.T) {
				if wrong := e.Check(); len(wrong) > 0 || e.Len() != len(has) {
					t.Fatalf("%d names instead of %d: %v", e.Len(), len(has), wrong)
				}
			},
		})
	})
}

// TestCheckFindsDamage: the checks report broken notes.
func TestCheckFindsDamage(t *testing.T) {
	for want, damage := range map[string]func(*Notes, *Errored){
		"out of place":        func(n *Notes, _ *Errored) { n.byNote.Newest().note = 99 },
		"problems, 1 of":      func(n *Notes, _ *Errored) { n.own++ },
		"the problems take":   func(n *Notes, _ *Errored) { n.bytes++ },
		"is out of order":     func(_ *Notes, e *Errored) { e.order[0].at = 99 },
		"is forgotten":        func(_ *Notes, e *Errored) { e.order[0].forgotten = true },
		"names with an error": func(_ *Notes, e *Errored) { e.bytes++ },
	} {
		t.Run(want, func(t *testing.T) {
			n, e := New(), NewErrored()
			n.Add(problem("a", 14, 0, OwnError), 1)
			n.Add(problem("b", 14, 0, Error), 2)
			n.SetExtra(Extra{Fields: []byte("x"), Note: 3})
			e.Remember("a", time.Unix(1, 0), 9)
			e.Remember("b", time.Time{}, 9)
			all := func() []string {
				return append(n.Check(3, func(int, string) bool { return true }), e.Check()...)
			}
			if wrong := all(); len(wrong) > 0 {
				t.Fatal(wrong)
			}
			damage(&n, &e)
			if wrong := all(); !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Fatalf("%q does not say %q", wrong, want)
			}
		})
	}
}
