// Package transition is the table of a state machine: for each event in each state, the next state
// and an output. It has no lock, no clock and no I/O. A table is made once and never changes, so any
// number of goroutines may read it.
//
// A state is a value that consists of parts, such as a phase and a verdict. A machine lists its
// transitions as [Row]s. A row matches all states whose parts are in its [Set]s, and says which
// parts are different afterwards. An event in a state that no row matches is illegal: it panics in
// builds with the race detector and changes nothing in others. [Table.Step] is one lookup and
// allocates nothing.
//
// Machines differ in their states, their events and in what their outputs mean, which is all that
// their packages contain: fanout/conversation, upstream/conversation, upstream/quarantine,
// relay/cache/confidence, relay/cache/link and relay/rollout. Package transitiontest holds a table against rules
// that were not made from it, and writes its page in docs/internals.
//
//   - row.go: sets of parts, and rows.
//   - table.go: the table.
package transition
