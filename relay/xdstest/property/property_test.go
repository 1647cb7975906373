package property_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/relay/xdstest/property"
)

// record is a test of which the log is read.
type record struct {
	rapid.TB
	failed bool
	lines  []string
}

func (r *record) Logf(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *record) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.failed = true
}
func (r *record) Log(args ...any) { r.lines = append(r.lines, fmt.Sprint(args...)) }
func (r *record) Failed() bool    { return r.failed }
func (r *record) FailNow()        {}

// TestFailureIsLast: the end of the log of a property that does not hold says why.
func TestFailureIsLast(t *testing.T) {
	t.Chdir(t.TempDir()) // rapid writes the case into a file
	r := &record{TB: t}
	property.Check(r, func(t *rapid.T) {
		if n := rapid.IntRange(0, 100).Draw(t, "n"); n > 10 {
			t.Fatalf("%d is too much", n)
		}
	})
	if !r.failed {
		t.Fatal("the check did not fail")
	}
	if last := r.lines[len(r.lines)-1]; !strings.Contains(last, "11 is too much") {
		t.Errorf("the last line is %q", last)
	}
}

// TestCheckUntil: a property is checked until it has met enough, fails if it never does,
// and its own failure ends it.
func TestCheckUntil(t *testing.T) {
	t.Chdir(t.TempDir())
	met, once := 0, 0
	r := &record{TB: t}
	property.CheckUntil(r, func() bool { return met > 2*once }, func(*rapid.T) {
		if met++; once == 0 {
			once = 1
		}
	})
	if r.failed || met <= 2 {
		t.Errorf("met %d, failed: %v", met, r.failed)
	}
	r = &record{TB: t}
	if property.CheckUntil(r, func() bool { return false }, func(*rapid.T) {}); !r.failed {
		t.Error("a property that never meets enough did not fail")
	}
	asked := false
	r = &record{TB: t}
	property.CheckUntil(r, func() bool { asked = true; return false }, func(t *rapid.T) { t.Fatal("wrong") })
	if !r.failed || asked {
		t.Errorf("failed: %v, asked whether it met enough: %v", r.failed, asked)
	}
}
