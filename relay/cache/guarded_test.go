package cache

import (
	"maps"
	"slices"

	"xdsrelay/relay/cache/table"
)

// Tests read the store of a table under its lock, as everything else does.

// entryOf returns the entry of a name, nil if there is none.
func (t *Table) entryOf(name string) *table.Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.store.Get(name)
}

// remembers returns for how many names clients may remember an error, and whether name is among them.
func (t *Table) remembers(name string) (all int, among bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.errored.Len(), t.core.errored.Has(name)
}

// saidOf returns how much was sent about a name besides the resource.
func (t *Table) saidOf(name string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.core.notes.Of(name))
}

// newest is the generation of the table.
func (t *Table) newest() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.store.Gen()
}

// hides reports whether a name is that of a resource that must not be cached.
func (t *Table) hides(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.store.Uncacheable()[name] != ""
}

// known is the number of known names. The test observes the lock, so this does not.
func (t *Table) known() int {
	t.mu.RWMutex.RLock()
	defer t.mu.RWMutex.RUnlock()
	return t.core.store.Len()
}

// floor is up to where some removals may be forgotten.
func (t *Table) floor() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all, aliases := t.core.store.Floors()
	floor := max(all, aliases)
	for name := range t.core.store.Globs() {
		floor = max(floor, t.core.store.Glob(name).Floor())
	}
	return floor
}

// all returns all entries.
func (t *Table) all() map[string]*table.Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Collect(t.core.store.Entries())
}

// wanted returns the names with interest, sorted.
func (t *Table) wanted() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(maps.Collect(t.core.demand.All())))
}

// askedSize is the size of the names that a stream asks for.
func (t *Table) askedSize(stream int) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.demand.Stream(stream).Size()
}

// hasAnswered reports whether a stream's control plane has ever answered.
func (t *Table) hasAnswered(stream int) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.demand.Stream(stream).HasAnswered()
}
