//go:build race

package robust

// raceFlags builds the relay as the test is built.
var raceFlags = []string{"-race"}
