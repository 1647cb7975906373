package cache

import (
	"fmt"
	"testing"
	"time"
)

// TestOthersWhileNamesEnd: while tens of thousands of names end that nobody wants any more,
// for others or with their key, the locks of the table and of all keys are given up in
// between.
func TestOthersWhileNamesEnd(t *testing.T) {
	const many = 40_000
	names := make([]string, many)
	size := 0
	for i := range names {
		names[i] = fmt.Sprintf("huge-%07d", i)
		size += len(names[i]) + nameOverhead
	}
	for what, end := range map[string]func(*world, *Table){
		"to make room": func(_ *world, table *Table) {
			if done := table.Edit(&Watcher{}, Edit{Add: []string{"few"}}); done.Over != nil {
				t.Errorf("%+v", done.Over)
			}
		},
		"with their key": func(w *world, _ *Table) { w.cache.Leave(w.group); w.cache.retire(w.group) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, Config{Linger: time.Hour, Lingering: 2 * many, LingeringBytes: 1 << 40, Legs: []Leg{{MaxNames: size}}})
			t.Cleanup(w.cache.Close)
			table := w.group.Table(endpoints)
			var huge Watcher
			table.Edit(&huge, Edit{Add: names})
			table.Leave(&huge)
			done := make(chan struct{})
			go func() { defer close(done); end(w, table) }()
			left := func() int {
				w.cache.mu.Lock()
				defer w.cache.mu.Unlock()
				table.mu.RLock()
				defer table.mu.RUnlock()
				return len(table.wants)
			}
			between := 0
			for n := left(); n > 1; n = left() {
				if n < many {
					between++
				}
			}
			<-done
			if between == 0 {
				t.Error("others get the locks only when all names have ended")
			}
		})
	}
}
