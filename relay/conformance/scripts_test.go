package conformance

import (
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/xdstest/conversation"
)

// scripts lists the conversations of a folder.
func scripts(t *testing.T, dir string) []conversation.Script {
	t.Helper()
	all, err := conversation.Scripts(dir)
	if err != nil {
		t.Fatalf("\n%v", err)
	}
	return all
}

// run says in which combinations a script is run, clients × origin; they come as
// "down-over-up".
func run(combinations []string) string {
	var downs, ups []string
	for _, c := range combinations {
		down, up, _ := strings.Cut(c, "-over-")
		if !slices.Contains(downs, down) {
			downs = append(downs, down)
		}
		if !slices.Contains(ups, up) {
			ups = append(ups, up)
		}
	}
	if len(downs)*len(ups) != len(combinations) {
		return strings.Join(combinations, ", ")
	}
	return strings.Join(downs, ", ") + " × " + strings.Join(ups, ", ")
}

// TestRun holds how combinations are told.
func TestRun(t *testing.T) {
	for want, combinations := range map[string][]string{
		"sotw-ads × delta":                         {"sotw-ads-over-delta"},
		"sotw-ads, delta-ads × sotw, delta":        {"sotw-ads-over-sotw", "sotw-ads-over-delta", "delta-ads-over-sotw", "delta-ads-over-delta"},
		"sotw-ads-over-sotw, delta-ads-over-delta": {"sotw-ads-over-sotw", "delta-ads-over-delta"},
	} {
		if got := run(combinations); got != want {
			t.Errorf("%v is told as %q, expected %q", combinations, got, want)
		}
	}
}
