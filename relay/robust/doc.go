// Package robust tries a tier of relays out as a whole, while things fail: real relay
// processes and a real Redis, an origin and a fleet that record all that they see,
// faults by a plan that a seed gives, and between them times in which everything has
// to come to rest. What was recorded is judged by the validators of
// [xdsrelay/relay/robust/check].
//
// TestLimit is apart from that: thousands of cheap clients of package bench/fleet on one
// node that has the memory for just so many.
//
// Each node has proxies of its own in front of the origin, of Redis and of its peer
// port, so that it can be cut off from each alone. The clock of a single process
// cannot be turned without the rights of an administrator, since Go reads it without
// a library; a process that was stopped for a while wakes up with time having jumped,
// which is the part of clock skew that leases are sensitive to.
//
// A run that fails leaves its recording, the logs of the nodes and its plan's seed in
// a folder, and says what contradicted a guarantee, with the events around it.
package robust
