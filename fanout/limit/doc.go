// Package limit bounds what clients may use of a node, so that no client, and no burst of clients,
// uses what the others need.
//
// There are three kinds of limits. Connections, streams and keys are counted per node, per address
// and per identity: they are booked when they begin and released when they end. The limits of a
// single stream are checked where its requests are read. And while the node is overloaded, new
// streams are refused: the node admits as many as it brings in sync within a bounded time, by its
// measured rate, and none while its memory is nearly used up.
//
// A refused client gets a gRPC status that names the limit and its value. Refusals are counted per
// limit, and the log has at most one line per limit and minute.
//
// # Files
//
//   - name.go, values.go: the limits, their descriptions and their configured values
//   - limiter.go, account.go: bookings per node, source and identity
//   - listener.go, operators.go: limits of connections, for clients, peers and operators
//   - admit.go, arrivals.go, pace.go: admission of new streams while the node is overloaded
//   - run.go, measure.go, memory.go: what is measured, and what is given up when memory is short
//   - tokens.go: requests per second of a stream
//   - refusal.go: refusals: their error, their counter and their log lines
package limit
