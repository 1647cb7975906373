package cache

import (
	"iter"
	"sync"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/lockorder"
)

// Clients of a key may name hundreds of thousands of resources of a type, and a scan of all of them
// takes many milliseconds. So a scan releases the lock of the table every [Cache.step] names, and
// other goroutines get it. The scan may miss what is added or removed meanwhile: the callers say
// why that is harmless.

// rwMutex is the mutex of a table. A test may observe how long it is locked, or act each time that
// it is unlocked.
type rwMutex struct {
	lockorder.RWMutex[lockorder.Table]
	// watch is called with true after each lock, and with false after each unlock; nil outside of
	// tests.
	watch func(held bool)
}

func (m *rwMutex) Lock() {
	m.RWMutex.Lock()
	m.note(true)
}

func (m *rwMutex) Unlock() {
	m.RWMutex.Unlock()
	m.note(false)
}

func (m *rwMutex) RLock() {
	m.RWMutex.RLock()
	m.note(true)
}

func (m *rwMutex) RUnlock() {
	m.RWMutex.RUnlock()
	m.note(false)
}

func (m *rwMutex) note(held bool) {
	if m.watch != nil {
		m.watch(held)
	}
}

// reading is the lock for readers.
func (m *rwMutex) reading() sync.Locker { return readLock{m} }

type readLock struct{ *rwMutex }

func (r readLock) Lock()   { r.RLock() }
func (r readLock) Unlock() { r.RUnlock() }

// inSteps iterates over a map of t. The lock, which must not be held before, is held while the
// loop runs, and released after each step. An element that is in the map all the time is yielded exactly
// once, even if the map grows or shrinks meanwhile; a removed one is not.
func inSteps[V any](t *Table, lock sync.Locker, m *map[string]V) iter.Seq2[string, V] {
	return func(use func(string, V) bool) {
		lock.Lock()
		defer lock.Unlock()
		n := 0
		for name, v := range *m {
			if !use(name, v) {
				return
			}
			if n++; n%t.group.cache.step == 0 {
				yield(lock)
			}
		}
	}
}

// entriesInSteps is inSteps for the entries of t.
func (t *core) entriesInSteps(lock sync.Locker) iter.Seq2[string, *table.Entry] {
	return func(use func(string, *table.Entry) bool) {
		lock.Lock()
		defer lock.Unlock()
		t.store.Scan(t.group.cache.step, func() { yield(lock) })(use)
	}
}

// interestsInSteps is inSteps for the interests in names of t.
func (t *core) interestsInSteps(lock sync.Locker) iter.Seq2[string, *interest] {
	return func(use func(string, *interest) bool) {
		lock.Lock()
		defer lock.Unlock()
		t.demand.Scan(t.group.cache.step, func() { yield(lock) })(use)
	}
}

// inPauses calls f under a lock, which must not be held before. f gets how many elements a step has,
// and what to call after each: it releases the lock for a moment.
func (t *core) inPauses(lock sync.Locker, f func(step int, pause func())) {
	lock.Lock()
	defer lock.Unlock()
	f(t.group.cache.step, func() { yield(lock) })
}

// yield lets other goroutines have a lock.
func yield(lock sync.Locker) {
	lock.Unlock()
	lock.Lock()
}

// shrink frees the room of what has been removed from the maps of t. t.mu must not be held.
func (t *Table) shrink() {
	t.mu.Lock()
	is := t.core.shrinking
	t.core.shrinking = true
	t.mu.Unlock()
	if is {
		return
	}
	t.core.inPauses(&t.mu, t.core.demand.Fit)
	t.core.inPauses(&t.mu, func(step int, pause func()) {
		t.core.store.Fit(step, pause)
		t.core.shrinking = false
	})
}
