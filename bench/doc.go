// Package bench measures the relay against references, in the same run and on
// the same machine, and writes what it found to results/ together with what it
// was measured on.
//
// Servers and clients are processes of their own, so that what is measured in a
// server is the server's alone. The program that measures starts itself again
// for that: it has to call [Child] before anything else. Everything stays on
// loopback, and every step has a deadline.
//
// [MeasureIdle] answers what a stream costs that has nothing to do. The floor
// it is compared with is a gRPC server with the same options whose handler only
// receives.
package bench
