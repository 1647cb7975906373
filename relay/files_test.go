package relay_test

import "testing"

// readsFiles skips a test under the race detector: one goroutine reads the files of the repository, which
// takes ten times as long there.
func readsFiles(t *testing.T) {
	t.Helper()
	if detector {
		t.Skip("one goroutine reads files")
	}
}
