// Package xdstest plays every part of an xDS conversation except the one under
// test: the control plane above it, the clients below it and the network in
// between. It is imported by tests and by the load tool, never by a program
// that serves traffic.
//
// Scripted parts do nothing on their own; the test decides each message:
//
//   - [Conn] and [Stream] are a downstream client, SotW or delta, on ADS or on a
//     per-type service, over real gRPC.
//   - [Origin] is a control plane whose every answer is written by the test.
//   - [LoadStream] and [LoadOrigin] are the two ends of a stream of load reports.
//
// Automatic parts behave well on their own, so that a test can look at the
// outcome instead of at each message:
//
//   - [Auto] is the client of package xdsclient: it subscribes, acknowledges, keeps
//     what it was sent, reconnects with what it holds, and notes every breach of
//     protocol that it meets.
//   - [StateOrigin] serves a plain map of resources, and knows what a client
//     with a given subscription must end up with.
//   - [ControlPlane] is a real go-control-plane server.
//   - [Network] is a TCP proxy that can cut, refuse, stall, delay and throttle.
//   - [Backend] is a server for real gRPC clients to call through what they
//     resolved.
//
// Resources come from the builders ([Cluster], [Endpoints], [GRPCService], …).
//
// Everything listens on a free port of 127.0.0.1, or on a [Memory], where time can
// be virtual, and is stopped by the cleanup of the test that started it. Waits are
// bounded by [Patience]; a failed wait ends the test and prints the conversation so
// far. Methods that take a [TB] must be called from the goroutine of that test, as
// Fatalf demands; all others may be called from any goroutine.
//
// Nothing here depends on the relay, but for that client: each part works against any
// xDS server or client.
package xdstest
