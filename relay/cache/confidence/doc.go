// Package confidence decides what one upstream stream's copy of a resource type is worth, as
// functions of values: it has no lock, no clock and no I/O. The caller, package cache, guards each
// [Confidence] by the lock of its table, reads the clock, and wakes clients.
//
// A relay has content that the control plane may have changed since: from before the key was idle or
// the process slept, from another node, or from last known good. It serves that content, but draws
// no conclusions from it until the control plane has answered. Which conclusions those are depends
// on where the content is from, and on whether the control plane was asked.
//
// A confidence is in a [State]: the basis of the content, and whether an answer is awaited and
// clients have to wait for it. [Event]s move it along one table of transitions, and [Question]s are
// answered by a second table. docs/internals/confidence.md shows both cell by cell. Besides the
// state, a confidence keeps a few times: since when an answer is awaited, and to when the content
// was confirmed.
//
// A stream that carries no answer for [Silence] has confirmed the content in most states: a control
// plane without changes sends nothing.
//
//   - state.go: bases, waits, events.
//   - transitions.go: the table of the transitions.
//   - questions.go: the table of the questions.
//   - confidence.go: the times, and one method per event and question.
//
// A transition that the table does not have panics in builds with the race detector and changes
// nothing in others.
package confidence
