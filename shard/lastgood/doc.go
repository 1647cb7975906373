// Package lastgood stores the last known good state of each key, so that it survives the nodes: in
// the Redis of the tier, or in a directory of one node. A tier that starts while its control plane
// is down serves that state until the control plane answers (K14).
//
// The owner of a key writes it, some time after a change: a pending write is only a due time, and
// the content is read from the cache when it is written. So a store that is down costs no memory,
// and a busy key is written at most once per delay. Reading has a deadline; records that arrive
// later are still applied. None of this blocks clients.
//
// A record is one type of one key: the resources in the form of a delta response, and the rest of
// the state of the cache (see record.go). It is compressed, encrypted if there are keys, and bound
// to the tier, the key and the type, so that one record cannot replace another. Secrets, and types
// with a resource that has a secret, are stored only if they are encrypted; resources that must not
// be cached (K17) never are.
//
// # Files
//
//	keeper       keeper.go (configuration and API), own.go (writes), restore.go (reads)
//	owned keys   plan.go (what is to be done when), schedule.go (the turns of all keys)
//	records      record.go (content), seal.go (compression and encryption), keys.go
//	stores       store.go (the interface), redis.go, directory.go, disk.go
//	metrics      metrics.go
package lastgood
