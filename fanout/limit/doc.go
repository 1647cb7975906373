// Package limit bounds what clients may take of a node, so that none of them, and no
// crowd of them, takes what the others need.
//
// There are three kinds of limits. What is counted (connections, streams and keys; of
// the node, of an address, of an identity) is booked when it comes and when it goes.
// What one stream may ask for is compared where the request is read. And while the
// node has more to do than it can, new streams wait outside: as many are let in as it
// brings in sync within a bounded time, as measured, and none while its memory is
// nearly used up.
//
// Whoever is refused is told at once which limit it was and what its value is, as a
// gRPC status. Refusals are counted by limit; of each limit a line is logged now and
// then, however many there are.
package limit
