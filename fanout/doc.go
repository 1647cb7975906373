// Package fanout is the xDS server: it serves the content of the cache to thousands of streams, in
// every variant of the protocol, each at its own pace.
//
// For each type a stream keeps a position in the history of the table, and has at most one response
// in flight. When a subscription changes, its streams are flushed: a stream looks at all its types
// in make-before-break order, asks the cache for the changes between its position and now, gets an
// encoded body that it shares with all other clients in the same position, appends its own nonce,
// and sends. Nothing is encoded per client, and nothing is queued for a client.
//
// Slow clients are coalesced, and no change is dropped: a client that cannot be sent a response yet
// costs only its position, and gets the newest state in one response later. A send never blocks: if
// the transport has no room for a further response, the stream sends nothing until there is, and a
// deadline ends a stream whose client does not read. So no client waits for another.
//
// A type that a client rejected is held: the client gets the rejected content again only together
// with the next change that it can see. A client that never answers is sent newer state after a
// wait. The names that must be sent again to a client are bounded by the names that it may
// subscribe to.
//
// A stream has no goroutine of its own: it is the client of a call of package transport, which
// passes it requests. Sends are done by the goroutines that bring news: the workers of the pool, for
// changes, and that of the transport, for requests. Only services.go and others.go know that the
// transport is grpc-go.
//
// # Files
//
// A client's connection and the streams on it:
//   - server.go, services.go: configuration, the gRPC services, the open streams
//   - connections.go, shed.go, shed_order.go, drain.go: which clients a node drains or sheds, and
//     how
//   - ending.go: how a stream ends
//   - limits.go, incomplete.go, others.go: what clients may use of the node
//   - identify.go, identity.go, admission.go, recheck.go: the Node of a client, its key and its
//     authorization
//
// The conversation on a stream:
//   - stream.go, requests.go: takes requests and applies them
//   - typestate.go, standing.go, locators.go, repeat.go: the state of one type on a stream
//   - claims.go, resume.go: clients that reconnect with content
//   - pending.go, omitted.go, unreachable.go, behind.go, waiting.go: what is due to a client, and
//     for what it waits
//   - flush.go, pool.go, pacing.go, alarm.go: sends what is due, and when
//   - private.go: types for one client or identity alone
//   - canary.go, canary_status.go: clients that are shown a candidate instead of the tables' content
//   - observed.go: how clients take the tables' content
//   - peers.go: streams of other nodes of the tier
//
// Responses:
//   - body.go, lifetime.go: encoded once for all clients in the same position
//   - message.go, compress.go: completed for one client, compressed or not
//
// Load reports:
//   - load.go, load_parts.go, load_metrics.go
//
// Status and metrics of clients:
//   - info.go, status.go, lacks.go, reach.go, progress.go: for status pages and traces
//   - metrics.go, stream_metrics.go, type_metrics.go: for metrics
//
// Subpackages: conversation has the protocol of one type on a stream, as named states and one table
// of transitions; transport is the boundary to what carries streams, and grpcgo the adapter of
// grpc-go; conn guards connections, limit counts what clients use, authz authorizes them, rest
// serves polling clients, bodycache and sharedgzip keep encoded and compressed responses, and ready
// reads without pinning buffers.
package fanout
