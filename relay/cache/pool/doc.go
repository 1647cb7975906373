// Package pool lets the keys of a process share the memory of resources that are equal. Most fleets
// have many keys with nearly the same content: the same clusters in each zone, say.
//
// A [Pool] knows what tables hold by weak pointers, so it keeps nothing alive and nothing has to be
// released: a resource that no table holds any more is collected, and its place in the pool is swept
// some time later. Resources are found by the digest of name and content, and shared only if their
// bytes are equal. Secrets, and what is private to a client, are never passed to it.
package pool
