// Package lockorder has the mutexes of the node's shared state, each with its place in the order
// in which a goroutine may lock them. In a program that is built with the race detector, a
// goroutine that locks against the order panics, whether or not the other goroutine that would
// make it a deadlock is there. Otherwise these are the mutexes of package sync, at no cost.
//
// The package documentation of relay has the order, and which lock is in which line: one list for
// the way of resources, and short ones beside it. A goroutine that holds a lock may lock those of
// later lines of its list. It holds one lock of a line at a time, except for tables; see
// [RWMutex.Within].
//
// Files: order.go has the lists and their lines, checked.go the mutexes that check it, and
// unchecked.go those that do not. goroutine_*.s identifies goroutines for the checks, since a
// stack, which has the number of its goroutine, takes longer to make than most locks are held.
package lockorder

// A Line is a line of one of the lists. A goroutine that holds a lock of a list may lock those of
// later lines of that list, those of other lists, and leaves.
type Line interface {
	// place returns the list, the number of the line in it, from the top, and whether a goroutine
	// may hold several locks of the line.
	place() (list, number int, several bool)
}

// The lists. Leaves are the end of each.
const (
	leaves = iota
	resources
	keys
	nodes
	loads
	reading
	claiming
)

// From the control plane to the clients.
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
)

// Where keys come from, in relay/tier.
type (
	// Tier is the line of Tier.mu.
	Tier struct{}
	// Keeper is the line of keeper.mu.
	Keeper struct{}
)

// The connections to other nodes, in relay/tier.
type (
	// Peers is the line of Peers.mu.
	Peers struct{}
	// Peer is the line of peer.mu.
	Peer struct{}
)

// Load reports.
type (
	// LoadSource is the line of loadStream.mu, in fanout, and Collector.mu, in relay/load.
	LoadSource struct{}
	// LoadAccount is the line of account.mu, in relay/load.
	LoadAccount struct{}
)

// The connections of clients, in fanout/conn.
type (
	// Conn is the line of Conn.mu.
	Conn struct{}
	// Coming is the line of Conn.coming.
	Coming struct{}
	// Claims is the line of Conn.claims and Listener.mu.
	Claims struct{}
)

// Leaf is the line of locks under which no other is locked.
type Leaf struct{}

func (Stream) place() (int, int, bool)      { return resources, 1, false }
func (Yielding) place() (int, int, bool)    { return resources, 2, false }
func (Heads) place() (int, int, bool)       { return resources, 3, false }
func (Cache) place() (int, int, bool)       { return resources, 4, false }
func (Table) place() (int, int, bool)       { return resources, 5, true }
func (Group) place() (int, int, bool)       { return resources, 6, false }
func (Tier) place() (int, int, bool)        { return keys, 1, false }
func (Keeper) place() (int, int, bool)      { return keys, 2, false }
func (Peers) place() (int, int, bool)       { return nodes, 1, false }
func (Peer) place() (int, int, bool)        { return nodes, 2, false }
func (LoadSource) place() (int, int, bool)  { return loads, 1, false }
func (LoadAccount) place() (int, int, bool) { return loads, 2, false }
func (Conn) place() (int, int, bool)        { return reading, 1, false }
func (Coming) place() (int, int, bool)      { return reading, 2, false }
func (Claims) place() (int, int, bool)      { return claiming, 1, false }
func (Leaf) place() (int, int, bool)        { return leaves, 1, false }
