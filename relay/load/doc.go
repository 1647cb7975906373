// Package load adds up load reports (LRS): what the clients of a key report is
// one report towards the origin, and what the origin asks for goes to all of
// them.
//
// A [Collector] holds an account for each aggregation key. A [Client] is one
// client's stream: it adds to its key's account and learns the [Terms], which
// say of which clusters the origin wants to hear, and how often. The [Outlet] is
// the upstream side of an account: it sets the terms and takes the sums. The two
// sides know nothing of each other, as with the cache.
//
// Counters are sums over everything that was reported since the last time that
// the sums were taken. What is taken is gone from the account, unless it is
// given back because it could not be sent; so nothing is lost here or counted
// twice. Gauges, such as the requests in progress, are the sum of the clients'
// latest values: a client's report replaces its last one as a whole, since
// clients leave out where nothing happens, and its end takes its values away.
//
// What an account holds is bounded. Beyond the bound, what is new is left out
// and counted; what is known already goes on adding up.
package load
