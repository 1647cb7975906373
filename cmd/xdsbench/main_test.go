package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if isChild() {
		main()
	}
	goleak.VerifyTestMain(m)
}

// command runs the program in this process. Its input has ended.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestUsage holds the exit codes, and that a mistake is told in few words.
func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args   string
		code   int
		stderr string // how it begins, or all of it where it ends in a line break
	}{
		{"", 0, ""},
		{"--help", 0, ""},
		{"runn", 2, "xdsbench: unknown command \"runn\" for \"xdsbench\"\nSee 'xdsbench --help'.\n"},
		{"run", 2, "xdsbench: expected a SCENARIO, got 0; 'xdsbench scenarios' lists them\nSee 'xdsbench run --help'.\n"},
		{"run steady storm", 2, "xdsbench: expected a SCENARIO, got 2; "},
		{"compare", 2, "xdsbench: expected a SCENARIO, got 0; "},
	} {
		code, _, stderr := command(t, strings.Fields(tc.args)...)
		whole := strings.HasSuffix(tc.stderr, "\n") || tc.stderr == ""
		if code != tc.code || !strings.HasPrefix(stderr, tc.stderr) || (whole && stderr != tc.stderr) {
			t.Errorf("%q: exit code %d and %q, expected %d and %q", tc.args, code, stderr, tc.code, tc.stderr)
		}
	}
}
