// Package events records the events of a node: what changed in its tier, and when. A node that
// joined, a control plane that was lost, a configuration that was rejected.
//
// [Kinds] is the table of all kinds: severity, subject, text and attributes of each. An event is
// recorded where the fact is decided, as a line of the log with the attribute [Key]:
//
//	log.Warn("node disappeared from the tier", events.Key, events.NodeDisappeared, "member", name)
//
// [Recorder.Handler] makes events of such lines, whatever the level of the log is. So each fact has
// one source, and a kind costs one row of the table and one attribute of a line.
//
// A [Ring] keeps the newest events of one node within bounds of number and bytes. Facts that many
// keys share are combined: a control plane that ends 1,000 keys gives one event with a count.
// [Merge] joins the rings of several nodes, and counts a fact that several nodes saw once.
//
// # Add a kind
//
// Add a constant and a row of the table, and write the line with the attribute. The table makes the
// reference page, completes --kind, and is what tests go through: each kind needs a test in which
// its real cause produces it.
package events
