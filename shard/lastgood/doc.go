// Package lastgood keeps what is known of each key beyond the life of the nodes: in
// the Redis of the tier, or in a directory of one node. A tier that starts while its
// origin is down serves that, until the origin answers (K14).
//
// The owner of a key writes it, a while after the fact: what waits to be written is
// only known to be due, and is taken from the cache when its turn comes. So a store
// that is down costs no memory, and a busy key is written no more often than the
// delay allows. Reading has a deadline, and what comes later is taken in later.
// Nothing of this is in the way of clients.
//
// A record is one type of one key: the resources as a delta response would hold them,
// and around it what else makes the cache's state (see record.go). It is compressed,
// encrypted where there are keys, and bound to the tier, the key and the type, so
// that nobody can put one in the place of another. Secrets, and types of
// which a resource holds one, are kept only where they are encrypted; resources that
// must not be kept (K17) never.
package lastgood
