package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// problems says what went wrong in single runs.
func (r *Result) problems() (out []string) {
	for _, c := range r.Cases {
		for _, run := range c.Runs {
			if p := run.problem(); p != "" {
				out = append(out, fmt.Sprintf("%s, %s, round %d: %s", c.Setup, run.Target, run.Round, p))
			}
		}
	}
	return out
}

// problem says what went wrong in a run; "" means nothing.
func (r *Run) problem() string {
	var parts []string
	if r.Error != "" {
		parts = append(parts, r.Error)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Violations)) {
		if n := r.Violations[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s violations: %s", count(float64(n)), kind))
		}
	}
	return strings.Join(parts, "; ")
}

// Failed says whether a run ended early or broke the protocol.
func (r *Result) Failed() bool { return len(r.problems()) > 0 }
