// Package link is the state of one upstream stream of a key, as functions of values: it has no lock,
// no clock and no I/O. The caller, package cache, guards each [Link] by the lock of its group, and
// reads the clock.
//
// A stream leads to the control plane, or to another node, which passes on what its own control
// plane sends. It may count as established by its silence alone, and may then be dead without a
// notice: such a stream confirms nothing. Conclusions are drawn from all of that: whether the content
// is current, whether other nodes know more, and whether the control plane can revoke a removal.
//
// A link is in a [State]: the target of the stream, its phase, and whether something was heard.
// [Event]s move it along one table, which docs/internals/link.md shows cell by cell. Besides the
// state, a link keeps since when it is in its phase and why there is no stream, and when a stream
// that confirmed the content was lost and when the next one began.
//
//   - state.go: targets, phases, voices, events.
//   - transitions.go: the table.
//   - link.go: the times, one method per event, and the questions.
//   - others.go: the other nodes that have been asked what they have.
//   - versions.go: the server that the versions of the content belong to.
//
// A transition that the table does not have panics in builds with the race detector and changes
// nothing in others.
package link
