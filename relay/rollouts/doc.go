// Package rollouts carries out the rollouts of a node: it holds back the changes of keys whose rule has a
// policy, shows them to canaries, observes these, and promotes or takes back what they were shown. Package
// rollout decides; package cache has what is pending and what clients see; package fanout shows.
//
// A [Controller] has one goroutine, [Controller.Run], two more in a tier, and one for each question to another
// system: they call Redis, the other nodes, and that system, all without a lock. The cache says which keys
// have changed, and the clients how they take a candidate; both only note that and wake the goroutine. It
// asks each such key what is next, does it, and writes the records before any client sees more. What narrows
// is done at once.
//
// Locks: Controller.mu guards all keys, and is held while the goroutine acts and while an order is carried
// out. It comes before all locks of the cache and of the clients. The lock of an arms value and that of
// the inbox are taken while the lock of a stream or a table is held, and are held for a few instructions.
//
//   - controller.go: the goroutine, and which keys have rollouts.
//   - rest.go: keys without a rollout, of which little is kept.
//   - key.go: the state and the acts of one key.
//   - effects.go: what the cache does for an act.
//   - arms.go, tally.go: who is a canary, and what becomes of canaries, also on other nodes.
//   - people.go: who may be one.
//   - answer.go: what the control plane gets about a revision.
//   - observe.go, sightings.go: policies that only observe.
//   - checks.go: what other systems are asked about a revision.
//   - orders.go: the orders of operators.
//   - effective.go: what is decided, and when it takes effect.
//   - status.go, progress.go, trouble.go: what operators see.
//   - stats.go: what is counted.
//   - records.go: what outlives the process.
//   - contents.go: what clients had before the newest revisions, to undo these.
//   - tier.go: the record of a key in a tier, and which node decides.
//   - tokens.go: the budget, on one node and in a tier.
//   - exchange.go: the messages between nodes.
//   - following.go: a node that does not decide about a key, and follows the one that does.
package rollouts
