package list

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type element struct{ link Link[element] }

// TestList: the list has what was added and not removed, in that order, from both ends.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(func(e *element) *Link[element] { return &e.link })
		var model []*element // the newest first
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				e := new(element)
				l.Push(e)
				model = slices.Insert(model, 0, e)
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					return
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "index")
				l.Remove(model[i])
				if model[i].link != (Link[element]{}) {
					t.Fatal("a removed element has neighbors")
				}
				model = slices.Delete(model, i, i+1)
			},
			"": func(t *rapid.T) {
				var down, up []*element
				for e := l.Newest(); e != nil; e = e.link.Older {
					down = append(down, e)
				}
				for e := l.Oldest(); e != nil; e = e.link.Newer {
					up = append(up, e)
				}
				slices.Reverse(up)
				if !slices.Equal(down, model) || !slices.Equal(up, model) || l.Len() != len(model) {
					t.Fatalf("%d elements from the newest, %d from the oldest, %d counted, expected %d", len(down), len(up), l.Len(), len(model))
				}
			},
		})
	})
}
