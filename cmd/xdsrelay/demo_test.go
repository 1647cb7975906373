package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo holds the exit codes of the demo, and that it tells lines where there
// is no terminal.
func TestDemo(t *testing.T) {
	code, stdout, stderr := command(t, "demo", "--for", "2s", "--every", "200ms", "--slow", "100ms", "--clients", "20")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "all 20 clients have the last state") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	empty := t.TempDir()
	for _, args := range [][]string{
		{"demo", "--clients", "0"},
		{"demo", "--for", "-1s"},
		{"demo", "--for", "soon"},
		{"demo", "--listen", "nowhere"},
		{"demo", "--dir", empty},
		{"demo", "now"},
		{"demo", "--rollout", "--for", "1s"},
		{"demo", "--rollout", "--nodes", "3"},
	} {
		if code, _, stderr := command(t, args...); code != 2 || stderr == "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
	nowhere := filepath.Join(empty, "nowhere")
	if code, _, stderr := command(t, "demo", "--dir", nowhere); code != 2 || !strings.Contains(stderr, nowhere+": no such file or directory") {
		t.Errorf("a directory that is not there: exit code %d, stderr %q", code, stderr)
	}
}
