// Package tier makes nodes one. For each key one of them is the owner: it has the
// key's streams to the origins. The others follow it, each as a delta client on the
// owner's peer port, and serve their own clients from what they hear.
//
// Where a key comes from is decided anew whenever the members change, the owner comes
// or goes, or another node asks for the key. Nothing that is held is dropped when that
// changes, and clients are told only what differs: the feed of a key stays the same,
// only what fills it is another.
//
// A request of another node is never passed on to a third: who is asked for a key
// that it does not take for its own asks the origin (one hop). So nodes that disagree
// for a moment about who is there cost streams to the origin, and nothing else.
package tier
