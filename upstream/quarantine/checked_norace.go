//go:build !race

package quarantine

// checked makes illegal transitions panic.
const checked = false
