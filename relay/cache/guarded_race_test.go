//go:build race

package cache

import "testing"

// TestStoreNeedsLock: with the race detector, a use of a table's store or demand without the lock
// panics, as does a change by a reader.
func TestStoreNeedsLock(t *testing.T) {
	w := newWorld(t, Config{})
	defer w.close()
	c := w.client(clusters, false, "a")
	for name, tc := range map[string]struct {
		use    func(t *Table)
		panics bool
	}{
		"read without the lock":   {func(t *Table) { t.core.store.Get("a") }, true},
		"read under the lock":     {func(t *Table) { t.mu.RLock(); defer t.mu.RUnlock(); t.core.store.Get("a") }, false},
		"change as a reader":      {func(t *Table) { t.mu.RLock(); defer t.mu.RUnlock(); t.core.store.AddGlob("a") }, true},
		"change without the lock": {func(t *Table) { t.core.store.AddGlob("a") }, true},
		"change under the lock":   {func(t *Table) { t.mu.Lock(); defer t.mu.Unlock(); t.core.store.AddGlob("a") }, false},

		"read the demand without the lock":   {func(t *Table) { t.core.demand.Get("a") }, true},
		"read the demand under the lock":     {func(t *Table) { t.mu.RLock(); defer t.mu.RUnlock(); t.core.demand.Get("a") }, false},
		"change the demand as a reader":      {func(t *Table) { t.mu.RLock(); defer t.mu.RUnlock(); t.core.demand.Discard("b") }, true},
		"change the demand without the lock": {func(t *Table) { t.core.demand.Discard("b") }, true},
		"change the demand under the lock":   {func(t *Table) { t.mu.Lock(); defer t.mu.Unlock(); t.core.demand.Discard("b") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := recover() != nil; got != tc.panics {
					t.Errorf("it panics: %t, expected %t", got, tc.panics)
				}
			}()
			tc.use(c.table)
		})
	}
}
