// Package relay is a relay node: it builds the cache, the upstream servers, the xDS server and
// the admin port from a configuration, runs them, and drains them so that clients reconnect
// elsewhere a few at a time. It is the only package that knows all others.
//
// # The way of an update
//
//  1. upstream: the receiver of a key's stream decodes a response and hands it to the runner of
//     that key, which owns all state of the stream (upstream/server_stream.go, upstream/runner.go).
//  2. relay/cache: the runner calls [cache.Feed.Apply]. That compares, gives what has changed the
//     next generation of its table, marks the subscriptions that can see it, and returns
//     without any work per client (relay/cache/apply.go).
//  3. fanout: [cache.Config.Wake] puts the streams of these subscriptions into the pool
//     (fanout/pool.go), at the end of a minimum interval if the type has one (fanout/pacing.go). A worker flushes each: which type is next, what changed since the
//     stream's position, the encoded body that all clients in this position share, the nonce,
//     the send (fanout/flush.go, fanout/pending.go).
//  4. tier: other nodes are delta clients of the owner. Each applies what it receives to its own
//     cache, from step 2 on.
//  5. The ACK or NACK arrives as a request.
//
// # The way of a request
//
//  1. fanout/conn counts the bytes of a connection below grpc-go, fanout/limit admits the stream.
//  2. fanout: the transport reads the first request of the stream (fanout/grpcgo). The rules compute the
//     aggregation key from its Node (relay/aggregation), authorization allows it (fanout/authz,
//     relay/authorize), and the stream joins the group of that key (fanout/stream.go).
//  3. A request that changes what the client wants edits a subscription of a table; one that
//     answers a response is an event of the conversation about its type (fanout/requests.go,
//     fanout/conversation).
//  4. relay/cache: where the union of what clients want has grown or shrunk, the feed signals
//     its runner, which subscribes upstream or, on a follower, at the owner (relay/cache/demand.go).
//  5. The stream is flushed at once with what the cache holds already.
//
// # Where a key comes from
//
// relay/tier decides for each key whether this node is its owner, follows the owner, or asks the
// control plane itself (relay/tier/keeper.go). shard says which nodes there are: leases in Redis
// (shard/lease) or a list. shard/head writes and reads tier heads, shard/lastgood the last known
// good state.
//
// # Lock order
//
// A goroutine that holds a lock may lock those below it, and none above. It holds two locks of one
// line only where that line says so. Under the race detector, a goroutine that does otherwise
// panics (relay/lockorder).
//
//	stream.mu, in fanout; at most one stream
//	Table.yielding, in relay/cache; while names of other clients are dropped
//	Heads.mu, in shard/head
//	Cache.mu
//	Table.mu, then that of a type whose resources refer to it: endpoints, clusters, listeners
//	Group.mu
//	leaves: Pool.mu, queue.mu in shard/head, schedule.mu in shard/lastgood, and the locks of
//	fanout/limit, fanout/bodycache, relay/trace and shard/store
//
// Before all of these: rolloutOrders.mu, then Controller.mu in relay/rollouts. The locks of its inbox,
// of the arms of a rollout, and of the traces of rollouts are leaves, as is that of the sender of events in
// relay/hooks.
//
// These lists are separate, and are checked in the same way: Tier.mu before keeper.mu and Peers.mu
// before peer.mu, in relay/tier; loadStream.mu and Collector.mu before account.mu, for load reports;
// in fanout/conn, Conn.mu before Conn.coming, and Conn.claims and Listener.mu before the lock of the
// limiter. No goroutine waits for the network with a lock of the first list: a stream sends under its lock, but no method of its call
// blocks (fanout/transport), and the transport calls a stream without a lock of its own.
//
// # Goroutines
//
//	per process    one per port; the workers of the pool, one per processor; Redis: members,
//	               heads (listen, check, write), and for each subscription to hints the receiver
//	               and one that adds what is newly wanted; the balancer, limits, rechecks,
//	               certificates, reload, the comparison of nodes, the watch for nodes
//	               that drain, samples, the rollouts of all keys (see [Node.Run]); in a tier two more
//	               for these, which write records and talk to other nodes; eight that send events of
//	               rollouts to a webhook
//	per key        the receiver and the runner of its stream. In a tier also its keeper and the
//	               search for content that it lacks. Tier heads and the last known good state have
//	               none: the writer of all heads has a queue, and the keeper of last known good
//	               state a timer, with one goroutine for each of the keys that it writes at a
//	               time. One ends these for a key whose source changes, for a second at most
//	per origin     one that watches each server's connection
//	per node       one that receives the heartbeats of another node, while a key is followed there;
//	               grpc-go's handler that sends it those of this node, while it follows a key here;
//	               and one while a message about rollouts is under way
//	per client     grpc-go's handler, which only receives. One more while a send could block
//	               (call.sendSlowly, in fanout/grpcgo); none while the stream is idle
//	per connection grpc-go's reader and writer
package relay
