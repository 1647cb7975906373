// Package table has the content of one resource type of one key as pure values: it takes no lock,
// reads no clock, and starts no goroutine. Package cache puts it under the lock of a table, passes
// the time to it, and notifies the clients.
//
// A [Store] has an [Entry] for each name of which something is known. An entry without a resource is
// a tombstone: the name is known to be absent. Each change gets the next generation number, and the
// entries are in the order of their last change, so that what changed since a generation is found at
// a cost proportional to the changes. Tombstones are bounded; what is forgotten raises the floors.
//
// One stream, or two, may have a [Copy] of the same resource; clients see one of them. A resource has
// its name, its aliases, and the [Glob] that covers it. Its TTL has a deadline, and a note: what
// clients are sent without a change of the resource.
//
// With the race detector, a use of a store without the lock panics; see [Store.Guard].
//
// # Files
//
//	entries      entry.go, copy.go
//	the store    store.go, tombstones.go, scan.go
//	other names  aliases.go, glob.go
//	TTLs         ttl.go
//	self-check   check.go
package table
