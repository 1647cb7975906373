// Package floor is the reference that servers are compared with: what the same
// bytes to the same clients cost at least.
//
// A floor broadcasts one message, encoded once, to all streams of a key, from
// one goroutine per core. It knows nothing of the protocol: its handlers only
// receive and count. For clients that have to be in step with it, it can answer
// the first request for each type on a stream, told by the type URL in it, with
// everything there is of the type; after that it looks at nothing any more.
// A floor with several keys looks for a key's name in a stream's first message.
//
// There are two:
//
//   - [GRPC] is a gRPC server with the relay's transport options, at the method
//     of the aggregated service for the variant. Its messages are handed to
//     the transport as they are.
//   - [TCP] writes the same messages to plain TCP connections, each behind the
//     five bytes that gRPC puts before it: 0, and the length in big-endian order.
//     There is no HTTP/2. What it reads is in the same form.
//
// Messages are what a relay would send. In delta, a change brings what changed.
// In state of the world, it brings everything for clusters and listeners, and
// what changed for endpoints and routes. Versions are revisions; those of single
// resources have 64 digits, as hashes do that others use there. Nonces are
// revisions with a letter for the type after them, and an s before them in
// answers to first requests.
//
// Nothing is done for slow clients: one that does not read holds up a core, and
// in the end all others.
package floor
