// Package property checks properties with pgregory.net/rapid for tests that run in
// virtual time.
package property

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// Check is [rapid.Check] without the deadline of the test, which is in real time. At
// the end of a failed check it logs once more why it failed: rapid says so first, and
// then logs every step of the case, of which the report of a long run keeps the end.
func Check(t rapid.TB, property func(*rapid.T)) {
	t.Helper()
	r := &repeats{TB: t}
	defer func() { // FailNow ends the goroutine
		if r.first != "" {
			t.Logf("failed, as said above the steps: %s", r.first)
		}
	}()
	rapid.Check(r, property)
}

// repeats keeps the first error of a check. It has no Deadline.
type repeats struct {
	rapid.TB
	first string
}

func (r *repeats) Errorf(format string, args ...any) {
	r.TB.Helper()
	text := fmt.Sprintf(format, args...)
	if r.first == "" {
		r.first, _, _ = strings.Cut(text, "\nFailed test output:")
	}
	r.TB.Errorf("%s", text)
}
