// Package xdsclient is an automatic xDS client. A [Client] behaves as a good Envoy does: it subscribes,
// acknowledges each response, or rejects it if its owner says so, keeps what it accepted, and opens
// its stream again when that ends, with what it holds. It is made for looking at a server: it checks
// each response against the rules of the protocol, and notes every breach.
//
// A client has one stream, state of the world or delta, on the aggregated service or on that of one
// type ([Variant]); a program that wants a stream per type starts a client for each. It may subscribe
// to names, to globs of structured names, and to everything. It connects in plaintext unless
// [Config].DialOptions have other credentials.
//
// Each client has one goroutine, which reads the stream and calls the functions of [Config]. All methods
// may be called from any goroutine, also by those functions, but for Close. [Client.Changed] says when to
// look again.
//
// Violations begin with the id of the rule that was broken (docs/internals/conformance.md): B4, nothing of the
// type is subscribed to; B5, a missing or repeated nonce; B29, a name twice in a response; B30, a body
// of another type; B31, a resource that was not asked for; B34, a resource without a body. A violation
// changes nothing of what the client does.
//
// [Frame] and [Request] are the messages of all variants in one form. The table of types is not that of package
// resource: a client that checks the relay must not share its mistakes.
package xdsclient
