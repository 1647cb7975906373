package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/bench/report"
)

// Config says how scenarios are measured.
type Config struct {
	Programs Programs
	// Rounds is how often each target is measured, at least 1.
	Rounds int
	// Command is noted in results as what repeats them.
	Command string
	// Logf is told of each run that is done; nil means nobody.
	Logf func(format string, args ...any)
	// Status is told, often, what is done at the time; nil means nobody. It is
	// called from one goroutine at a time.
	Status func(line string)

	progress progress
}

// Compare takes all targets through a scenario, round by round and setup by
// setup: in each round the next setup and the next target are the first, so that
// what changes on the machine meanwhile concerns all alike. A run that fails does not
// end the others; what went wrong is in the result. The error is about what
// cannot be measured at all, or ctx, with what was measured before it.
func (c *Config) Compare(ctx context.Context, s Scenario) (*report.Result, error) {
	if c.Rounds < 1 {
		return nil, fmt.Errorf("%d rounds, expected at least 1", c.Rounds)
	}
	targets := make([]Target, len(s.Targets))
	for i, text := range s.Targets {
		t, err := ParseTarget(text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(targets[:i], t) {
			return nil, fmt.Errorf("target %s is there twice", t)
		}
		targets[i] = t
	}
	if len(targets) == 0 {
		return nil, errors.New("no targets, expected at least one")
	}
	result := &report.Result{
		Scenario: s.Name, Answers: s.Answers, Command: c.Command, Rounds: c.Rounds, Targets: s.Targets,
		Machine: report.ThisMachine(ctx, "fanout", "upstream", "relay", "bench", "cmd", "go.mod"),
	}
	total, number := len(s.Setups)*c.Rounds*len(targets), 0
	for _, setup := range s.Setups {
		result.Cases = append(result.Cases, report.Case{Setup: setup})
	}
	for round := range c.Rounds {
		for n := range result.Cases {
			current := &result.Cases[(n+round)%len(result.Cases)]
			setup := current.Setup
			for i := range targets {
				t := targets[(i+round)%len(targets)]
				number++
				c.progress.begin(fmt.Sprintf("%s %d/%d · %s · %s", s.Name, number, total, t, setup))
				began := time.Now()
				run := c.run(ctx, t, setup, s.Steps, round+1)
				if ctx.Err() != nil {
					return result, context.Cause(ctx)
				}
				current.Runs = append(current.Runs, run)
				c.logf("%s %d/%d  %-6s  round %d  %s: %s (%v)", s.Name, number, total, t, round+1, setup,
					outcome(&run, setup), time.Since(began).Round(100*time.Millisecond))
			}
		}
	}
	return result, nil
}

// outcome is a run in a few words.
func outcome(run *report.Run, setup report.Setup) string {
	if p := run.Problem(); p != "" {
		p, _, _ = strings.Cut(p, "\n")
		return "FAILED: " + p
	}
	return run.Brief(setup)
}

func (c *Config) logf(format string, args ...any) {
	if c.Logf != nil {
		c.Logf(format, args...)
	}
}
