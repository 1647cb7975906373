// Package origin is a control plane on go-control-plane, set up as its users
// would: the origin behind a relay, or what a relay is compared with when
// clients connect to it directly.
//
// It serves the aggregated and the types' own services, state of the world and
// delta, from one of two caches. [Snapshot] holds a snapshot for each key, which
// a change replaces; a type's version in it changes only if the type does.
// [Linear] holds a cache for each key and type, which a change updates. Clients
// of both get the key that their node names as its cluster.
//
// A client of the snapshots that speaks state of the world has to subscribe to
// everything by naming nothing: the name * is unknown there.
//
// What goes over the streams is counted by a statistics handler of gRPC, which
// is told of each message and its size without another look at it.
package origin
