//go:build shadow

package upstream

// shadowing runs package conversation alongside the fields of asked, and panics where the two
// differ.
const shadowing = true
