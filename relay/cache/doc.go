// Package cache is where upstream and fan-out meet: it has the tables of every aggregation key, the
// demand of the key's clients, and the idle keys that may be evicted.
//
// # Terms
//
// A [Group] is everything that belongs to one aggregation key. A key with clients is never evicted.
//
// A [Table] has all resources of one type for one key. Each change gets the next generation number,
// and the table keeps its entries in the order of their last change. So applying a change, and
// answering what changed since generation G, cost as much as there are changes, whatever the
// table's size. An entry without a resource is a tombstone: the name is known to be absent. Package
// table has the entries, package demand what clients ask for and what each stream was asked, and
// package notes what clients are sent besides the resources, all without a lock. The core of a Table
// combines them, without a lock either; the Table is the lock around the core.
//
// A [Subscription] is a set of names, the wildcard, or both. Clients watch a table through a
// [Watcher], which links them to a Subscription; equal subscriptions are one shared object. A
// client's own state is no more than a [Position] in the table's history.
//
// The interest in a name is the set of its subscriptions. The demand is everything that has
// interest. A name whose interest has ended lingers: it stays part of the demand for a while.
//
// An upstream stream, in this package just a stream, connects a key with a control plane, or on a
// follower with the owner of the key. A key has one or several streams (see [OriginStream]); a
// route decides which one serves a name. The same resource may arrive by name on one stream and by
// the wildcard on another, so an entry may have two copies. Comments about a control plane apply to
// the owner as well, unless they name the owner.
//
// A [Feed] is the upstream side of one stream: the package upstream takes the demand from it, and
// applies what the control plane answers.
//
// A note is something that clients are sent without a change of a resource: an error, or a renewed
// TTL.
//
// Content is unconfirmed when it was restored from last known good or another node, when the key
// was idle or the process slept, and until the control plane has answered again. Then a name that
// is missing does not count as removed. Package confidence decides that for each type and stream.
// Package link has the state of each stream: where it leads, and whether it confirms anything. Package
// tierhead compares the content with what the tier agrees is the newest, package removals has what
// the removal guard holds back, package gate what is held back while a key is frozen or undone, package
// absence what a stream knows of names without a resource, and package recent the newest updates.
//
// # The way of an update
//
//  1. The runner of a stream calls [Feed.Apply] (feed.go), which locks the table.
//  2. The removal guard decides which removals are held back (guard.go, children.go). Each resource,
//     removal and error becomes a change of an entry (apply.go, copy.go) and a generation
//     (core.set), which marks the subscriptions that can see it.
//  3. The answer ends the wait for the names that were asked for (core.answer). The content is
//     compared with the tier head (tier_head.go), and the update is remembered for traces and
//     ages (applied.go).
//  4. The table is unlocked, and [Config.Wake] gets the marked subscriptions.
//  5. fanout flushes their clients: [Table.State] says whether there is news, and [Table.Changes]
//     returns what changed since the client's position (changes.go, pick.go), in parts if it exceeds
//     a limit (part.go).
//
// # The way of a request
//
//  1. fanout calls [Table.Adopt] for a list that some client already has, or [Table.Replace] or
//     [Table.Edit] (edit.go; edit_steps.go for many names).
//  2. Names with a first or without a last subscription change the demand (demand.go; its state is in package demand). Lingering ends
//     by a timer of the group (demand_end.go).
//  3. The table is unlocked, and [Feed.News] signals the runner, which calls [Feed.TakeDemand]
//     (demand_take.go) and sends a request.
//
// # Locks
//
// Locks are taken in this order, and one goroutine may hold several of them:
//
//	Cache.mu   the index of keys, and the clients and feeds of each group
//	Table.mu   a table, its subscriptions and watchers; then the mu of the table of a type whose
//	           resources refer to it (children.go)
//	Group.mu   the tables of a group, the state of its streams, and its timers
//
// Table.yielding, which serializes the search for names to drop, is taken before all of them.
// Everything that is reached through the core field of a Table needs its mu: all methods of core, and
// the unexported methods of Subscription. A method whose name ends in Locked is called with a lock of
// its own type held, which its comment names. With the race detector, a use of the store, the demand or
// the notes of a table without its mu panics, as does a change by a reader. [Config.Run], [Config.Wake],
// [Config.Alarm], [Config.HoldEnded] and [Config.NamesNear] are called without a lock.
//
// Nothing here blocks on a client or on the network. A writer changes the table, marks the
// subscriptions that can see the change, and signals; it does no work per client. A reader takes
// the newest state. A scan of a large map releases the lock every few names (steps.go).
//
// Each feed has a goroutine, which [Config.Run] occupies. Everything else runs on the goroutines of
// callers, and of timers.
//
// # Files
//
//	keys                 cache.go, group.go, peer.go, private.go, slept.go
//	tables               table.go, copy.go, aliases.go, glob.go, spelling.go, gap.go, steps.go
//	subscriptions        subscription.go, watcher.go, wake_state.go, edit.go, edit_steps.go
//	demand               demand.go, demand_take.go, demand_end.go, linger.go; the bounds on
//	                     names: names_size.go, names_fair.go
//	upstream streams     origin_stream.go, feed.go, feeds.go, apply.go, claims.go, fresh.go
//	other nodes          needs.go, first.go, late.go
//	answers to clients   subscription_state.go, reconcile.go, query.go, changes.go, pick.go, pick_notes.go, part.go,
//	                     names.go, arrived.go, content.go, unreachable.go
//	errors and TTLs      resource_error.go, errored.go, ttl.go
//	freeze and undo      account.go, gate.go, freeze.go, undo.go
//	candidates           view.go, verdict.go
//	removal guard        guard.go, guard_renew.go, children.go, removed.go
//	last known good      snapshot.go, restore.go, renew.go, overtaken.go
//	tier heads           tier_head.go, tier_head_trace.go, table_digest.go
//	status               info.go, status.go, history.go, applied.go, ask.go, lacks.go, missing.go, whose.go
//	self-check           check.go, check_glob.go
package cache
