// Package lockorder has the mutexes of the node's shared state, each with its place in the order
// in which a goroutine may lock them. In a program that is built with the race detector, a
// goroutine that locks against the order panics, whether or not the other goroutine that would
// make it a deadlock is there. Otherwise these are the mutexes of package sync, at no cost.
//
// The package documentation of relay has the order, and which lock is in which line. A goroutine
// that holds a lock may lock those of later lines. It holds one lock of a line at a time, except
// for tables; see [RWMutex.Within].
//
// Files: order.go has the lines of the order, checked.go the mutexes that check it, and
// unchecked.go those that do not. goroutine_*.s identifies goroutines for the checks, since a
// stack, which has the number of its goroutine, takes longer to make than most locks are held.
package lockorder

// A Line is a line of the order. The lines of this package are listed from the first to the last lock
// that a goroutine may hold.
type Line interface {
	// place returns the number of the line, from the top, and whether a goroutine may hold
	// several locks of the line.
	place() (number int, several bool)
}

type (
	// Stream is the line of stream.mu, in fanout.
	Stream struct{}
	// Yielding is the line of Table.yielding, in relay/cache.
	Yielding struct{}
	// Heads is the line of Heads.mu, in shard/head.
	Heads struct{}
	// Cache is the line of Cache.mu, in relay/cache.
	Cache struct{}
	// Table is the line of Table.mu, in relay/cache.
	Table struct{}
	// Group is the line of Group.mu, in relay/cache.
	Group struct{}
	// Leaf is the line of locks under which no other is locked.
	Leaf struct{}
)

func (Stream) place() (int, bool)   { return 1, false }
func (Yielding) place() (int, bool) { return 2, false }
func (Heads) place() (int, bool)    { return 3, false }
func (Cache) place() (int, bool)    { return 4, false }
func (Table) place() (int, bool)    { return 5, true }
func (Group) place() (int, bool)    { return 6, false }
func (Leaf) place() (int, bool)     { return 7, false }
