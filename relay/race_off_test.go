//go:build !race

package relay_test

// detector reports whether the race detector is in this program: costs mean nothing then.
const detector = false
