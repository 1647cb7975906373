//go:build !race

package conversation

// checked makes illegal transitions panic.
const checked = false
