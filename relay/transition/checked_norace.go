//go:build !race

package transition

// Checked says that illegal transitions panic.
const Checked = false
