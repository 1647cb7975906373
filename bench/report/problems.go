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
			if p := run.Problem(); p != "" {
				out = append(out, fmt.Sprintf("%s, %s, round %d: %s", c.Setup, run.Target, run.Round, p))
			}
		}
	}
	return out
}

// Problem says what went wrong in a run; "" means nothing.
func (r *Run) Problem() string {
	var parts []string
	if r.Error != "" {
		parts = append(parts, r.Error)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Violations)) {
		if v := r.Violations[kind]; v.Count > 0 {
			parts = append(parts, fmt.Sprintf("%s × %s, first: %s", count(float64(v.Count)), kind, v.First))
		}
	}
	return strings.Join(parts, "; ")
}

// Failed says whether a run ended early, or broke the protocol. How well
// go-control-plane keeps to it is not the question here.
func (r *Result) Failed() bool {
	for _, c := range r.Cases {
		for _, run := range c.Runs {
			reference := run.Target == OriginTarget || strings.HasPrefix(run.Target, OriginTarget+":")
			if run.Error != "" || !reference && run.Problem() != "" {
				return true
			}
		}
	}
	return false
}

// Missed lists the limits that were missed of metrics that hardly differ from run to run, a sentence
// for each.
func (r *Result) Missed() []string {
	var missed []string
	for _, v := range r.Summarize().Verdicts {
		if v.Exact && !v.Met {
			missed = append(missed, fmt.Sprintf("%s (%s): %s, expected at most %s", v.What, v.Case, v.Measured, v.Limit))
		}
	}
	return missed
}

// Brief is a run in a few words: what was measured of each step.
func (r *Run) Brief(setup Setup) string {
	var parts []string
	for _, step := range r.Steps {
		for _, v := range step.values(setup, r) {
			switch v.Key {
			case CPUPerResponse, CPUPerClient, CoreShare:
				parts = append(parts, fmt.Sprintf("%s %s", step.Name, v.Unit.Format(v.V)))
			}
		}
	}
	return strings.Join(parts, ", ")
}
