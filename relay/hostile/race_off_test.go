//go:build !race

package hostile

// detector reports whether the race detector is in this program, and so in the nodes.
const detector = false

// good is how many clients watch the node, one half of each variant.
const good = 200
