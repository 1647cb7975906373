//go:build race

package lockorder

import (
	"fmt"
	"sync"
)

// Mutex is a [sync.Mutex] with its line in the order.
type Mutex[L Line] struct{ mu sync.Mutex }

// Lock locks m. It panics where the goroutine holds a lock that comes after m in the order.
func (m *Mutex[L]) Lock() {
	var line L
	note(line, 0, m, true, true)
	m.mu.Lock()
}

// TryLock is [sync.Mutex.TryLock]. It never waits, so it may be called in any order.
func (m *Mutex[L]) TryLock() bool {
	ok := m.mu.TryLock()
	if ok {
		var line L
		note(line, 0, m, false, true)
	}
	return ok
}

// Unlock unlocks m. It panics where another goroutine has locked it.
func (m *Mutex[L]) Unlock() {
	unlocking(m)
	m.mu.Unlock()
}

// RWMutex is a [sync.RWMutex] with its line in the order.
type RWMutex[L Line] struct {
	mu     sync.RWMutex
	within int
}

// Within sets the place among the locks of a line of which a goroutine may hold several: it may
// lock those with a larger number, not that one or smaller ones. Call it before the first lock.
func (m *RWMutex[L]) Within(number int) { m.within = number }

// Lock locks m for writing. It panics where the goroutine holds m, or a lock that comes after it.
func (m *RWMutex[L]) Lock() {
	var line L
	note(line, m.within, m, true, true)
	m.mu.Lock()
}

// RLock locks m for reading, with the same rules as Lock: a reader that locks once more waits for
// a writer which waits for that reader.
func (m *RWMutex[L]) RLock() {
	var line L
	note(line, m.within, m, true, false)
	m.mu.RLock()
}

// Unlock ends Lock. It panics where another goroutine has locked m.
func (m *RWMutex[L]) Unlock() {
	unlocking(m)
	m.mu.Unlock()
}

// RUnlock ends RLock. It panics where the goroutine has not locked m.
func (m *RWMutex[L]) RUnlock() {
	unlocking(m)
	m.mu.RUnlock()
}

// MustHold panics unless the goroutine holds m, and for writing if writes.
func (m *RWMutex[L]) MustHold(writes bool) {
	id := goroutine()
	shard := &byGoroutine[id>>5%uintptr(len(byGoroutine))]
	shard.Lock()
	defer shard.Unlock()
	for _, h := range shard.held[id] {
		if h.mutex == m && (h.writes || !writes) {
			return
		}
	}
	var line L
	panic(fmt.Sprintf("lockorder: a goroutine uses what a lock of the line %T guards, and does not hold it; it has to hold it for writing: %t", line, writes))
}

// A held lock.
type held struct {
	mutex                any
	line                 Line
	list, number, within int
	several, writes      bool
}

// before reports whether a goroutine that holds h may lock l.
func (h held) before(l held) bool {
	switch {
	case h.list == leaves:
		return false
	case h.list != l.list:
		return true
	case h.number == l.number:
		return h.several && h.within < l.within
	}
	return h.number < l.number
}

func (h held) String() string {
	return fmt.Sprintf("a lock of the line %T, number %d of it", h.line, h.within)
}

// byGoroutine has the locks that goroutines hold, by goroutine.
var byGoroutine [64]struct {
	sync.Mutex
	held map[uintptr][]held
}

// note notes that the goroutine holds a lock, or is about to; writes says that it is not for reading
// only. It panics where the goroutine may have to wait for the lock, and must not.
func note[L Line](line L, within int, mutex any, waits, writes bool) {
	list, number, several := line.place()
	l := held{mutex, line, list, number, within, several, writes}
	id := goroutine()
	shard := &byGoroutine[id>>5%uintptr(len(byGoroutine))]
	shard.Lock()
	defer shard.Unlock()
	for _, h := range shard.held[id] {
		if waits && !h.before(l) {
			panic(fmt.Sprintf("lockorder: a goroutine locks %v while it holds %v", l, h))
		}
	}
	if shard.held == nil {
		shard.held = make(map[uintptr][]held)
	}
	shard.held[id] = append(shard.held[id], l)
}

// unlocking notes that the goroutine gives a lock up.
func unlocking(mutex any) {
	id := goroutine()
	shard := &byGoroutine[id>>5%uintptr(len(byGoroutine))]
	shard.Lock()
	defer shard.Unlock()
	all := shard.held[id]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].mutex != mutex {
			continue
		}
		shard.held[id] = append(all[:i], all[i+1:]...) // kept when empty: a test counts allocations
		return
	}
	panic("lockorder: a goroutine unlocks what it has not locked")
}

// goroutine returns the address of what the runtime knows about the goroutine. No two goroutines
// have the same at a time.
func goroutine() uintptr
