package cache

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestOthersWhileNamesEnd: while the demand for many thousands of names ends, because of other
// names or with their key, the locks of the table and of all keys are released in between.
func TestOthersWhileNamesEnd(t *testing.T) {
	// On one processor the goroutine that waits runs each time that the other yields, whatever else
	// the machine does.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const many = 16_000
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
			w := newWorld(t, Config{Linger: time.Hour, Lingering: 2 * many, LingeringBytes: 1 << 40, Streams: []OriginStream{{MaxNames: size}}})
			t.Cleanup(w.cache.Close)
			w.cache.step = many / 250
			table := w.group.Table(endpoints)
			var huge Watcher
			table.Edit(&huge, Edit{Add: names})
			table.Leave(&huge)
			table.mu.watch = func(held bool) {
				if !held {
					runtime.Gosched() // so that others ask for the locks
				}
			}
			done := make(chan struct{})
			go func() { defer close(done); end(w, table) }()
			left := func() int {
				w.cache.mu.Lock()
				defer w.cache.mu.Unlock()
				table.mu.RLock()
				defer table.mu.RUnlock()
				return table.core.demand.Len()
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

// TestRoomOfNamesThatEnded: after the interest in very many names has ended, their memory is freed,
// including that of the maps.
func TestRoomOfNamesThatEnded(t *testing.T) {
	w := newWorld(t, Config{Linger: time.Hour, LingeringBytes: 1 << 40, Wake: func([]*Subscription) {}})
	t.Cleanup(w.close)
	table := w.group.Table(endpoints)
	names := func(what string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s-%07d", what, i))
		}
		return all
	}
	take := func(what string, n int) *Watcher {
		var one Watcher
		table.Edit(&one, Edit{Add: names(what, n)})
		w.feed.TakeDemand(true, false)
		w.feed.Absent(endpoints, names(what, n/2)) // and nothing is known of the others
		return &one
	}
	defer table.Leave(take("few", 2000))
	before := liveHeap()
	huge := take("huge", 100_000)
	most := int64(liveHeap() - before)
	table.Leave(huge)
	table.expire(time.Now().Add(2*time.Hour), make(map[*Subscription]struct{}))
	w.feed.TakeDemand(false, false)
	w.feed.Apply(Update{Type: endpoints})
	if left := int64(liveHeap() - before); left > most/10 {
		t.Errorf("%d of %d bytes are left, expected at most a tenth", left, most)
	}
	runtime.KeepAlive(huge)
}
