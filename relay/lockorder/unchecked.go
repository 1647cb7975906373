//go:build !race

package lockorder

import "sync"

// Mutex is a [sync.Mutex] with its line in the order.
type Mutex[L Line] struct{ sync.Mutex }

// RWMutex is a [sync.RWMutex] with its line in the order.
type RWMutex[L Line] struct{ sync.RWMutex }

// Within sets the place among the locks of a line of which a goroutine may hold several: it may
// lock those with a larger number, not that one or smaller ones. Call it before the first lock.
func (m *RWMutex[L]) Within(int) {}

// MustHold does nothing without the race detector.
func (m *RWMutex[L]) MustHold(bool) {}
