// Package recent has what a table remembers of its newest updates, as pure values: it takes no lock, reads
// no clock, and starts no goroutine. Package cache puts it under the lock of a table.
//
// [Updates] has when they arrived, and [Mask], in each subscription, which of them concern it. So the age
// of what a client has just acknowledged is found without state per client. [Versions] has the control
// plane's own versions, and up to which generation each reached: whether a version is everywhere is a
// question about positions of clients.
package recent
