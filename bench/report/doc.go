// Package report is what measurements are made into: a [Result] holds the runs
// of one scenario with all that was measured, and is kept as JSON, shown as a
// table on a terminal or in Markdown, and drawn as a page of its own (HTML) that
// needs nothing but itself.
//
// A single figure says little, since machines differ and are shared. What is
// shown is the median over rounds with its spread, and the ratio to a reference
// that was measured in the same round on the same machine. [Budgets] says which
// of these ratios the relay is meant to reach.
package report
