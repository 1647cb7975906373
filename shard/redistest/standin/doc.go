// Package standin is a Redis in the process of a test: enough of one for this product,
// over connections of any kind and in virtual time ([testing/synctest]), which a real
// redis-server can have neither of. It has the commands that the product sends and runs
// the product's scripts as they are, in Lua; nothing of them is written twice.
//
// It can stand in for a real server only as far as it behaves as one: what tests of this
// folder say of it they say of a redis-server, too, and so do the tests of shard that
// run on both (see redistest.Both).
//
// It has no replicas, no cluster, no users and no memory limit, and keeps nothing on
// disk.
package standin
