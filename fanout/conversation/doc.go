// Package conversation is the protocol of one resource type on one stream, as functions of values:
// it has no lock, no clock and no I/O. The caller, package fanout, guards each [Conversation] by the
// lock of its stream, reads the clock, asks the cache, and sends.
//
// A conversation is in a [State]: the phase of the newest response (unanswered or not), the verdict
// on what the client was sent (rejected or not), the kind of the newest response, and whether parts
// of it are still to be sent. [Event]s move it along one table of transitions, which
// docs/internals/conversation.md shows cell by cell. Besides the state, a conversation keeps the
// positions that the client was sent and has accepted, and its debts: names to be sent whatever
// their generation.
//
// [Conversation.Next] and [Conversation.Judge] answer what to do next as a [Decision]: send, skip, or
// wait for a named [Reason].
//
//   - state.go: phases, verdicts, kinds, events.
//   - transitions.go: the table.
//   - conversation.go: positions and debts, and one method per event.
//   - view.go: what decisions depend on besides, as named values.
//   - next.go: decisions and reasons.
//
// A transition that the table does not have panics in builds with the race detector and changes
// nothing in others.
package conversation
