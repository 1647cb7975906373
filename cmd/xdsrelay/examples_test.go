package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestExamplesAreAccepted: the examples in the help of commands that connect to a node are valid, also
// where the command itself reads the arguments. There is no node, so a
// valid one fails later, for that reason.
func TestExamplesAreAccepted(t *testing.T) {
	root := (&app{}).newRootCmd()
	tried := 0
	for _, cmd := range commandsBelow(root) {
		if cmd.Flags().Lookup("admin-token-file") == nil {
			continue
		}
		for line := range strings.Lines(cmd.Example) {
			for _, args := range callsOf(strings.TrimSpace(line)) {
				tried++
				args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--watch" || arg == "-w" })
				if slices.Contains(args, "--admin") || slices.Contains(args, "--context") {
					continue // of another node; TestCommandsOfPages tries its form
				}
				if slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, ".json") || strings.HasSuffix(arg, ".yaml") }) {
					continue // of a file, which does not exist here
				}
				var out, wrong bytes.Buffer
				if code := run(t.Context(), append(args, "--admin", "127.0.0.1:1"), []string{"HOME=" + t.TempDir()}, &out, &wrong); code == exitUsage && !strings.Contains(wrong.String(), "no node answers") {
					t.Errorf("xdsrelay %s: exit code %d, expected the example to be valid: %s", strings.Join(args, " "), code, wrong.String())
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("tried %d examples, expected more: has the form of the help changed?", tried)
	}
}
