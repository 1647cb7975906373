// Package transitiontest holds the table of a machine against rules that were not made from it. For
// tests.
//
// The rules are a model: facts that are each set and cleared by themselves, and that say which events
// are possible and what state and output they lead to. A [Machine] follows every event from the first
// state on, in the table and in the model together:
//
//   - walk.go: the walk, which compares each cell, and the states that can be reached.
//   - rows.go: rows that contradict each other, or match nothing.
//   - mutate.go: each part of each cell changed by itself, which the walk has to notice.
//   - page.go: the page in docs/internals.
package transitiontest
