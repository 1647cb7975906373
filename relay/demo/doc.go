// Package demo shows a relay at work: a directory of resources as origin, a
// real relay node on loopback, and a simulated fleet of clients of all variants,
// each with a TCP connection of its own. It changes a resource every few
// seconds and shows whom that reaches, and how fast.
//
// The node is the one that `xdsrelay run --upstream DIR` runs. Everything that
// is shown about clients was measured by the clients, and the verdict at the end
// compares what each of them holds with the files, read here on a path of its
// own and not through the relay.
//
// The loop of [Run] owns all the bookkeeping: the files as read here, the
// changes, and the totals. The clients note what they receive, and the loop
// collects it.
//
// [RunTier] shows several relays instead, each a process of its own, with a Redis where
// there is one: it kills an owner, cuts off the control plane, and says in plain words
// what that costs the clients.
//
// [RunRollout] shows a relay with a rollout policy: a good version that goes to all clients in steps, and a bad
// one that is taken back from the first that got it.
package demo
