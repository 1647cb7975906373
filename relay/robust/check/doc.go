// Package check judges a recording: one validator for each guarantee that the tier
// gives, each in a file of its own.
//
// Events are observed in the order of the recording. Every validator sees an event
// before the [Model] has taken it in, and so can compare what came with what was
// before. Nothing here knows how relays work: only what the origin had and said, what
// clients were told, and which faults there were.
package check
