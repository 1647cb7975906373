// Package authorize decides whether a client may be what it says it is. A client's
// Node is a claim, and its aggregation key follows from the claim; so before there
// is a key, an ordered list of rules compares the Node with what the connection
// proves. It is pure: no goroutines, no I/O.
//
// A rule is one CEL expression over the variables that aggregation rules have: node
// (an envoy.config.core.v3.Node), peer (what the client's certificate proves, see
// [aggregation.Peer]) and listener (the name of the one it came by). The first rule
// that matches decides: it lets the client in, or, with deny, refuses it. A client
// that no rule matches is refused. So is one for which an expression fails, as where
// it reads a metadata key that the client lacks, and no later rule is tried: a rule
// that could not be asked must not be passed over.
//
// What holds for more clients than it seems to is refused by [Compile]: expressions
// that are the same for every client, patterns that are not tied to both ends of a
// text, prefixes that stop in the middle of a trust domain, and rules that let in
// whoever says the right thing about itself, without a look at certificate, address
// or listener.
//
// A decision may be asked for again as long as the client is there. What the rules
// read of a Node is often a small part of it; [Policy.Reads] says which, so that
// nobody has to keep the rest.
package authorize
