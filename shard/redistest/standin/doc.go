// Package standin is a Redis in the process of a test. It implements as much of Redis as this
// product needs, over connections of any kind and in virtual time ([testing/synctest]); a real
// redis-server supports neither. It has the commands that the product sends, and runs the Lua
// scripts of the product unchanged.
//
// It can replace a real server only as far as it behaves like one: the tests of this folder also
// run against a redis-server, and so do the tests of shard that run on both (see redistest.Both).
//
// It has no replicas, no cluster, no users and no memory limit, and stores nothing on disk.
package standin
