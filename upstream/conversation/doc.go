// Package conversation is the protocol of one resource type on one stream to a control plane, from
// the client's side, as functions of values: it has no lock, no clock and no I/O. The caller, package
// upstream, owns each [Conversation] on one goroutine, reads the clock, takes the demand from the
// cache, and sends. Package fanout/conversation is the mirror image, from the server's side.
//
// A conversation is in a [State]: the scope of the subscription, the reply to the newest response
// (none, sent, waiting for canaries, or owed), and the frames of an answer that may be incomplete. [Event]s move it along
// one table of transitions for each variant, which docs/internals/upstream-conversation.md shows
// cell by cell. Besides the state, a conversation keeps the list of names (SotW), the nonce, and the
// names that the server may still count as subscribed.
//
// [Conversation.AskSotW] and [Conversation.AskDelta] answer what to request for a demand as a
// [Decision]: nothing, one request, an unsubscription before it, or a new stream. A new stream begins
// with a new conversation.
//
//   - state.go: scopes, replies, frames, events.
//   - transitions.go: the table.
//   - conversation.go: responses and replies to them.
//   - ask.go: from a demand to a decision.
//   - stale_unsubscribe.go: names that a response may have crossed.
//
// A transition that the table does not have panics in builds with the race detector and changes
// nothing in others.
package conversation
