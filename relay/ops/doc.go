// Package ops is the read model for operators: the clients, keys, updates and nodes of a tier, their
// states, and the warnings that follow from them. It renders nothing. Package admin serves the model
// as JSON, as tables and to the live page, and the commands of cmd/xdsrelay render the same JSON.
//
// [Local] describes one node. [Model] asks all nodes, merges their answers, and names the nodes that
// did not answer, with the number of their clients: a part never looks like the whole. [Nodes] is how
// it asks them. [Observed] combines what all nodes report about themselves into [Live], the tier at
// a glance, with its [Warning]s.
//
// A client is one connection with one node id and key. It may have several streams: without
// aggregation it has one for each type. A client that polls has no connection; it is one host with
// one node id and key.
//
// By topic:
//
//	clients       client.go, state.go, query.go, local.go, sums.go, rejections.go, diff.go, near.go
//	events        events.go, event.go
//	orders        orders.go
//	keys          keys.go, key_query.go, dump.go, history.go, names.go
//	updates       updates.go, progress.go
//	events        events.go, warnings_events.go
//	nodes         node.go, members.go, quiet.go, strays.go, clocks.go, live.go, warnings.go
//	the tier      model.go, ask.go, token.go
package ops
