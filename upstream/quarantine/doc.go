// Package quarantine decides on which stream of a key a resource type is requested, as functions of
// values: it has no lock, no clock and no I/O. The caller, package upstream, owns each [Types] on one
// goroutine, reads the clock, opens the streams, sends, and informs operators.
//
// Some control planes end the whole stream when they receive a request for a type that they do not
// know: go-control-plane's MuxCache is one. The request of one client would then interrupt the
// updates of all clients of its key, on each new stream. So a type that the server has never
// answered is quarantined once a stream has ended after a request for it: the main stream of the key
// no longer asks for it. A probe stream does, for one type at a time, so that its end is due to that
// type. A type whose probe stream has received an answer, or has lasted for [Window], is released to
// the main stream. A type whose probe stream has ended waits longer each time.
//
// The relay can only guess which request ended a stream. A wrong guess is cheap: a type that is
// quarantined without reason is requested a moment later on a probe stream, and returns to the main
// stream with the answer. A type that the server has answered is never quarantined.
//
// A type is in a [State]: the place where it is requested, and the verdict on it. [Event]s move it
// along one table of transitions, which docs/internals/quarantine.md shows cell by cell. A
// [Decision] is what to do next: nothing, open a probe stream, or release a type.
//
//   - state.go: places, verdicts, events.
//   - transitions.go: the table.
//   - types.go: the types of a server, the evidence against them, and one method per event.
//
// A transition that the table does not have panics in builds with the race detector and changes
// nothing in others.
package quarantine
