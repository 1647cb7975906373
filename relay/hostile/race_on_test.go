//go:build race

package hostile

// detector reports whether the race detector is in this program, and so in the nodes.
const detector = true

// good is how many clients watch the node, one half of each variant; the race detector multiplies the cost of each change to all of them.
const good = 40
