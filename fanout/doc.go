// Package fanout is the xDS server: it serves what the cache holds to
// thousands of streams, in every variant, each at its own pace.
//
// A stream keeps, for each type, a position in the table's history and at most
// one response in flight. When something changed, the stream is flushed: it
// looks at all its types in make-before-break order, asks the cache what
// changed between its position and now, gets an encoded body that is shared
// with every other client in the same position, appends its private nonce, and
// sends. Nothing is marshalled per client, and nothing is queued for one.
//
// Slow clients are coalesced, never dropped from: a client that cannot take a
// response yet holds nothing but its position, and gets the newest state in
// one response when it can. Sends happen inline while they cannot block (the
// transport accepts 64 KiB that are not acknowledged); beyond that the stream
// is handed to a goroutine of its own, and a deadline ends a stream whose
// client never reads. So no client waits for another.
//
// A client that rejects is held, not sent the same again: what it rejected
// comes with the next change that it can see. One that never answers is sent
// newer state after a wait. What has to be said to it again is bounded by the
// names that it may subscribe to.
//
// The handler goroutine of a stream only receives. Sending is done by whoever
// brings news: the pool, for changes, and the handler, for requests.
package fanout
