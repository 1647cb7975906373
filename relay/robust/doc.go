// Package robust tries a tier of relays out as a whole, while things fail: real relay
// processes and a real Redis, an origin and a fleet that record all that they see,
// faults by a plan that a seed gives, and between them times in which everything has
// to come to rest. What was recorded is judged by the validators of
// [xdsrelay/relay/robust/check].
//
// These are the faults, of which one or two last at a time, while the control plane changes and
// clients start, leave, return and move:
//
//   - a node is killed, terminated or paused, killed within a second of a change, or paused
//     while it loses the control plane; all nodes are killed;
//   - Redis is slow, flushed, killed, paused or read-only, or one node is cut off from it; with a
//     Redis Cluster a master is killed or paused, and its replica takes over;
//   - a node or all nodes are cut off from their peers, or their connections hang;
//   - a node or all nodes are cut off from the control plane, or their connections hang;
//   - the control plane restarts as it was, newer, older or empty; it loses most resources, or all
//     of them, and is put right within the hold of the removal guard or after it;
//   - a node joins, or all nodes restart one by one, while the control plane is away.
//
// Runs differ in what the control plane speaks, in where the last known good state is kept (a
// directory, Redis, or nowhere), in whether nodes hold back mass removals, and in whether Redis is
// one server or a cluster.
//
// TestRollouts takes a tier with rollout policies through some of these faults, by a script: while canaries have a
// revision, and while one is refused. With -soak.rollouts, TestSoak does so by a plan: revisions of several keys at
// once, good ones and bad ones, and faults at any time after that. The validators know no rollouts, so both judge by
// themselves how many clients get a revision, and whether a node without a fault ends a stream.
//
// TestLimit is apart from that: thousands of cheap clients of package bench/fleet on one
// node that has the memory for just so many.
//
// Each node has proxies of its own in front of the origin, of Redis and of its peer
// port, so that it can be cut off from each alone, but for a Redis Cluster, whose servers are at
// the addresses that they report. The clock of a single process
// cannot be turned without the rights of an administrator, since Go reads it without
// a library; a process that was stopped for a while wakes up with time having jumped,
// which is the part of clock skew that leases are sensitive to.
//
// A run that fails leaves its recording, the logs of the nodes and its plan's seed in
// a folder, and says what contradicted a guarantee, with the events around it.
package robust
