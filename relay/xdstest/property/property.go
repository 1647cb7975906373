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

// rounds are the checks that CheckUntil makes at most.
const rounds = 50

// CheckUntil is [Check], and repeats it, at most 50 times, until enough reports that the
// property has met what it is about. How many cases one check has is set from outside
// (-rapid.checks, RAPID_CHECKS), so a property that counts what it met cannot expect a
// count of one check.
func CheckUntil(t rapid.TB, enough func() bool, property func(*rapid.T)) {
	t.Helper()
	for range rounds {
		Check(t, property)
		if t.Failed() || enough() {
			return
		}
	}
	t.Errorf("the property has not met what it is about in %d checks", rounds)
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
