package cache

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"xdsrelay/relay/resource"
)

// TestOthersDuringAHugeEdit: while a client edits tens of thousands of names, others of the same
// key and type get their changes.
func TestOthersDuringAHugeEdit(t *testing.T) {
	const many = 40_000
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("huge-%d", i)
	}
	for what, edit := range map[string]func(*Table, *Watcher) Edited{
		"delta": func(t *Table, w *Watcher) Edited { return t.Edit(w, Edit{Add: names}) },
		"SotW":  func(t *Table, w *Watcher) Edited { return t.Replace(w, false, names) },
		"delta, of a shared subscription": func(t *Table, w *Watcher) Edited {
			t.Edit(w, Edit{Add: []string{"a"}}) // like the other client
			return t.Edit(w, Edit{Add: names})
		},
	} {
		t.Run(what, func(t *testing.T) {
			var routed atomic.Int64
			began := make(chan struct{})
			w := start(t, Config{Route: func(_ *resource.Type, name string) int {
				if strings.HasPrefix(name, "huge-") && routed.Add(1) == 1 {
					close(began)
				}
				return 0
			}})
			table := w.group.Table(endpoints)
			var other, huge Watcher
			table.Edit(&other, Edit{Add: []string{"a"}})
			edited := make(chan Edited)
			go func() { edited <- edit(table, &huge) }()
			<-began
			got, at := 0, Start
			for i := 0; routed.Load() < many; i++ {
				w.apply(endpoints, res("a", fmt.Sprint(i)))
				c, err := table.Changes(&other, Query{Since: at})
				if err != nil || len(c.Resources) != 1 {
					t.Errorf("change %d: %d resources, %v", i, len(c.Resources), err)
					break
				}
				at = c.To
				if routed.Load() < many {
					got++
				}
			}
			if done := <-edited; len(done.Added) != many || done.Over != nil {
				t.Errorf("%d names are added, expected %d", len(done.Added), many)
			}
			if got == 0 {
				t.Error("another client gets no change before the edit of a huge list has ended")
			}
			table.Leave(&huge)
			table.Leave(&other)
		})
	}
}

// TestHugeEditOverTheBound: an edit in steps that exceeds the bound on names is rejected, even if
// two clients make theirs at the same time.
func TestHugeEditOverTheBound(t *testing.T) {
	const size = 5 + nameOverhead // of a name
	w := start(t, Config{Streams: []OriginStream{{MaxNames: 150 * size}}, Route: func(*resource.Type, string) int { return 0 }})
	w.cache.step = 10
	table := w.group.Table(endpoints)
	names := func(letter string) (all []string) {
		for i := range 100 {
			all = append(all, fmt.Sprintf("%s%04d", letter, i))
		}
		return all
	}
	first := steps{table: table}
	if over := first.reserve(subKey{}, names("a"), Edit{}); over != nil {
		t.Fatalf("the first edit is refused: %v", over)
	}
	var second, third Watcher
	if done := table.Edit(&second, Edit{Add: names("b")}); done.Over == nil || done.Over.Bytes != 200*size {
		t.Errorf("during another edit: %+v, expected to be over the bound", done.Over)
	}
	first.release()
	if done := table.Edit(&second, Edit{Add: names("b")}); done.Over != nil || len(done.Added) != 100 {
		t.Errorf("after the other edit: %+v", done)
	}
	if done := table.Edit(&second, Edit{Add: names("c"), Remove: names("b")}); done.Over == nil {
		t.Error("names that are added to those that may linger are not over the bound")
	}
	if done := table.Edit(&third, Edit{Add: names("b")}); done.Over != nil {
		t.Errorf("names that are wanted already: %+v", done)
	}
	if table.askedSize(0) != 100*size || table.core.reserved[0] != 0 {
		t.Errorf("%d bytes of names, %d reserved, expected %d and 0", table.askedSize(0), table.core.reserved[0], 100*size)
	}
	table.Leave(&second)
	table.Leave(&third)
}
