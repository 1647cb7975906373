//go:build race

package confidence

// checked makes illegal transitions panic.
const checked = true
