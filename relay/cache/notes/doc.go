// Package notes has what clients are sent of one resource type of one key besides the resources, as
// pure values: it takes no lock, reads no clock, and starts no goroutine. Package cache puts it under
// the lock of a table, passes the time to it, and notifies the clients.
//
// Clients are sent some things without a change of a resource: that its TTL was renewed, which package
// table has with the resource, or what a response contained about a name besides the resources, which
// [Notes] has. Each of these has a number that grows with them across the table, its note, and a
// client's position includes the last note that it was sent. Of one resource or name only the newest
// note is kept, so a client that is behind gets one.
//
// Clients remember an error until they get the resource (C16). A client that was away when the error
// was reverted, and returns with the newest copy, needs the resource once more: on any node, even
// after a restart. [Errored] has the names of these errors, and [Shared] what of them another node was
// sent.
//
// With the race detector, a use without the lock panics; see [Notes.Guard] and [Errored.Guard].
//
// # Files
//
//	errors, removals, unknown fields  notes.go, problem.go
//	names that had an error           errored.go, shared.go, resent.go
//	self-check                        check.go
package notes
