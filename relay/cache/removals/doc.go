// Package removals has the removals of one stream that the removal guard holds back (K16), as a pure
// value: it takes no lock, reads no clock, and starts no goroutine. Package cache puts it under the lock
// of a table, passes the time to it, and applies what it says.
//
// A [Hold] is in one of three states, its [Reason]. A mass removal (see [Loss]) begins a hold, which
// ends at a time, or when it is released. A removal of what the resources of another type, its parents,
// refer to is held back as long as removals of these are; its time is when they are looked at again.
package removals
