// Package trace makes one trace of each update: of what an origin has sent of one type
// of one key, from its arrival until the last client has answered.
//
// An update is seen by many goroutines, and by thousands of clients. So it is a handful
// of counters, which those who send and those who receive answers add to without a
// lock, and its spans are made when it is over, with the times that were noted. There
// is no span per stream, and nothing per client but for a few of them, which are chosen
// evenly along the way. Where nothing is traced, a nil [Tracer] and nil Updates cost a
// comparison.
//
// The fan-out coalesces: a client that jumps over several updates was sent, and has
// answered, all of them. How many clients an update concerns is counted when it is
// applied, by who is subscribed to what changed; those that come, go or ask for
// something else meanwhile make that approximate.
package trace
