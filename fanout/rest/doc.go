// Package rest serves xDS to polling clients: POST with proto3 JSON, one path per type (H1). For
// its duration a poll joins the group of its key and subscribes like a stream. No poll is answered
// from what is remembered of another one (H5). The names of a poll stay subscribed upstream for the
// linger time, which must be longer than the time between two polls of a client. Recent polls and
// their versions are remembered only to be shown, within bounds of time and bytes.
//
// # Versions
//
// A poll that quotes the current version waits for a change, for less than the timeout of clients,
// and ends with 304. The version is derived from the content that the names of the poll select, not
// from the version of the control plane: any number of changes may lie between two polls, so an
// equal version must prove equal content (H4). An answer is encoded once for all clients of a key
// that see the same content, and recent answers are kept within a bound of bytes.
//
// # JSON
//
// JSON spells out the content of an Any, so it needs the descriptors of all messages. If the
// program has no descriptor for an extension type, or for a field that is newer than the program,
// the whole answer fails with 500, which names the type and the resource. Nothing less is safe: a
// full state without the resource would read as its deletion, and without the extension or field
// the client would run a configuration that nobody made, perhaps less protected than intended.
// After the failure the client keeps its configuration. Polls for other names are answered, and
// gRPC clients are unaffected, since their resources are not decoded.
//
// # Files
//
//   - server.go, handler.go, connections.go, metrics.go: the HTTP server
//   - request.go, members.go, refusal.go: reads, checks and authorizes a request, or refuses it
//   - poll.go: waits for a change and answers
//   - encode.go, messages.go: the answer in JSON
//   - poll_registry.go, poll_state.go: recent polls and the state of their clients
//   - clients.go: these clients as status pages show them
//   - recent_polls.go: the exchange of recent polls between nodes
package rest
