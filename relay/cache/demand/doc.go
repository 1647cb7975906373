// Package demand has what the clients of one key ask for of one resource type, and what each upstream
// stream is asked for and has answered, as pure values: it takes no lock, reads no clock, and starts
// no goroutine. Package cache puts it under the lock of a table, passes the time to it, and wakes the
// clients. A subscription is a type parameter: the demand compares subscriptions and does nothing
// else with them.
//
// A [Demand] has an [Interest] for each name that a subscription asks for, and one for the wildcard.
// Without subscribers it lingers until the table ends it. A route decides which [Stream] serves it.
//
// A name is in one of these states at the stream that serves it:
//
//	                 interest  state    change pending  what the next request says
//	none             no                 no
//	unasked          yes       unasked  yes             subscribe
//	asked            yes       asked    no
//	asked again      yes       asked    yes             unsubscribe, then subscribe (C9)
//	shed             yes       shed     no
//	being shed       yes       shed     yes             unsubscribe
//	ending           no                 yes             unsubscribe
//
// An interest is answered when its stream has answered all that it was asked by then: interests have
// numbers, and a stream has the number up to which it was asked, and has answered. A name that is
// asked for waits for an answer (see [Demand.Open]) unless something is known of it anyway.
//
// A [Take] makes a request of what is pending on a stream, or of everything, in steps between which
// others may change the demand. A ghost subscription is a name without interest that the control
// plane may believe the relay holds; see ghosts.go.
//
// With the race detector, a use of a demand without the lock panics; see [Demand.Guard].
//
// # Files
//
//	interests            interest.go, subscribers.go, demand.go
//	streams              stream.go, ghosts.go
//	requests             take.go
//	large maps           scan.go
//	self-check           check.go
package demand
