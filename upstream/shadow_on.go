//go:build shadow

package upstream

// shadowing runs the states of package quarantine alongside the fields of typeTrust, and panics
// where the two differ.
const shadowing = true
