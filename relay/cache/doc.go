// Package cache is where upstream and fan-out meet: it holds the tables of
// every aggregation key, what the key's clients want, and the idle keys that
// may be evicted.
//
// A [Group] is everything that belongs to one aggregation key. It has a
// [Table] for each resource type, which keeps resources in the order of their
// last change, so that applying a change and asking "what changed since
// generation G" cost as much as there are changes, whatever the table's size.
// Clients watch a table through a [Subscription]; equal subscriptions are one
// shared object, and a client's own state is no more than a position in the
// table's history.
//
// The upstream side is a [Feed] for each [Leg]: it reads what of the group's
// demand, which is the union of all subscriptions, is routed there, and applies
// what the origin answers.
//
// Nothing here blocks on a client or on the network. A writer changes the
// table, marks the subscriptions that can see the change, and signals; it does
// no work per client. A reader takes the newest state. A key with clients is
// never evicted.
//
// Locks are taken in this order: Cache.mu, the mu of a table, that of the table of a type
// that refers to it (see children), Group.mu.
package cache
