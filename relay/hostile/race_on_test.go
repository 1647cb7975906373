//go:build race

package hostile

// detector reports whether the race detector is in this program, and so in the nodes.
const detector = true
