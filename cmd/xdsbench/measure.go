package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/bench/report"
	"xdsrelay/bench/scenario"
)

// errBroken says that something went wrong in a run; what it was is in the
// report.
var errBroken = errors.New("a run failed, or clients saw the protocol broken")

// measuring is what the commands that measure have in common.
type measuring struct {
	override scenario.Override
	rounds   int
	relay    string // a program that is built already
	json     bool
	html     string // a file
	keep     string // a folder
	against  string // a folder
	strict   bool
}

func (m *measuring) addFlags(cmd *cobra.Command, rounds int) {
	flags := cmd.Flags()
	flags.IntSliceVar(&m.override.Clients, "clients", nil, "how many clients there are; several numbers are measured one after the other")
	flags.IntSliceVar(&m.override.Resources, "resources", nil, "how many clusters, and as many endpoint assignments, each key has")
	flags.IntSliceVar(&m.override.Keys, "keys", nil, "how many keys there are")
	flags.Float64SliceVar(&m.override.Slow, "slow", nil, "the `PERCENT` of clients that read slowly")
	flags.Float64SliceVar(&m.override.Stuck, "stuck", nil, "the `PERCENT` of clients that stop reading once they hold everything")
	for _, name := range []string{"slow", "stuck"} {
		flags.Lookup(name).DefValue = "" // else the help says [], which is no value of theirs
	}
	flags.StringSliceVar(&m.override.Variants, "variant", nil, "the `VARIANT` of the clients: delta or sotw, or both with a comma")
	flags.DurationVar(&m.override.Duration, "duration", 0, "how long the changes of a step take, and how long steps are in which nothing happens")
	flags.DurationVar(&m.override.Interval, "interval", 0, "the time from one change to the next")
	flags.StringArrayVar(&m.override.Targets, "target", nil,
		"what is measured, again for each: relay, relay:PROGRAM, origin, origin:CACHE, floor, tcp or command:COMMAND; the first is the reference")
	flags.IntVar(&m.rounds, "rounds", rounds, "how often each target is measured")
	flags.StringVar(&m.relay, "relay-bin", "", "the xdsrelay `PROGRAM`; without, it is built from the checkout here")
	flags.BoolVar(&m.json, "json", false, "write the results to standard output as JSON, one after the other")
	flags.StringVar(&m.html, "html", "", "write the last result as a page to this `FILE`")
	flags.StringVar(&m.keep, "keep", "", "keep each result in this `DIR`ectory, as JSON, page and Markdown")
	flags.BoolVar(&m.strict, "strict", false, "fail if memory or allocations, which hardly differ from run to run, are above their limits")
	flags.StringVar(&m.against, "against", "", "compare the ratios with the newest result in this `DIR`ectory")
}

// measure takes the targets through the scenarios of the names given.
func (m *measuring) measure(ctx context.Context, a *app, names []string, targets []string) (err error) {
	if m.rounds < 1 {
		return usageError{fmt.Errorf("%d rounds, expected at least 1", m.rounds)}
	}
	if len(m.override.Targets) == 0 {
		m.override.Targets = targets
	}
	var all []scenario.Scenario
	for _, name := range names {
		named, err := scenario.Named(name)
		if err != nil {
			return usageError{err}
		}
		for _, s := range named {
			if s, err = s.Apply(m.override); err != nil {
				return usageError{err}
			}
			for _, text := range s.Targets {
				if _, err := scenario.ParseTarget(text); err != nil {
					return usageError{err}
				}
			}
			all = append(all, s)
		}
	}
	programs, remove, err := m.programs(ctx, all)
	if err != nil {
		return err
	}
	defer remove()
	view := newStatusLine(a.stderr)
	var broken error
	var missed []string
	for _, s := range all {
		cfg := scenario.Config{
			Programs: programs, Rounds: m.rounds, Command: a.commandLine, Logf: view.logf, Status: view.status,
		}
		result, err := cfg.Compare(ctx, s)
		view.clear()
		if result != nil && result.Runs() > 0 {
			if err := m.show(a, result); err != nil {
				return err
			}
			if result.Failed() {
				broken = errBroken
			}
			missed = append(missed, result.Missed()...)
		}
		if err != nil {
			return err
		}
	}
	if broken == nil && m.strict && len(missed) > 0 {
		return fmt.Errorf("above the limit: %s", strings.Join(missed, "; "))
	}
	return broken
}

// programs says how processes are started, and builds the relay if it is needed
// and not there.
func (m *measuring) programs(ctx context.Context, all []scenario.Scenario) (scenario.Programs, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return scenario.Programs{}, nil, err
	}
	remove := func() {}
	relay := m.relay
	if relay == "" && needRelay(all) {
		dir, err := os.MkdirTemp("", "xdsbench-")
		if err != nil {
			return scenario.Programs{}, nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
		if relay, err = scenario.BuildRelay(ctx, dir); err != nil {
			remove()
			return scenario.Programs{}, nil, err
		}
	}
	return scenario.Programs{
		Child: func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, self, args...) },
		Relay: func(ctx context.Context, file string) *exec.Cmd {
			return exec.CommandContext(ctx, relay, "run", "-c", file)
		},
	}, remove, nil
}

func needRelay(all []scenario.Scenario) bool {
	for _, s := range all {
		if slices.Contains(s.Targets, report.RelayTarget) {
			return true
		}
	}
	return false
}

// show writes a result to wherever it is wanted.
func (m *measuring) show(a *app, r *report.Result) error {
	if m.json {
		b, err := r.JSON()
		if err != nil {
			return err
		}
		if _, err := a.stdout.Write(b); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "\n%s", r.Text())
	}
	if m.against != "" {
		older, path, err := report.Last(m.against, r.Scenario)
		switch {
		case errors.Is(err, report.ErrNone):
			fmt.Fprintf(a.stderr, "xdsbench: %v\n", err)
		case err != nil:
			return err
		default:
			fmt.Fprintf(a.stdout, "\n%s: %s", path, report.Drift(older, r))
		}
	}
	if m.html != "" {
		page, err := r.HTML()
		if err != nil {
			return err
		}
		if err := os.WriteFile(m.html, page, 0o644); err != nil {
			return err
		}
	}
	if m.keep != "" {
		base, err := r.Keep(m.keep)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "xdsbench: kept in %s.json, .html and .md\n", base)
	}
	return nil
}

// quoted is a command line that a shell would read as these arguments.
func quoted(args []string) string {
	var parts []string
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n'\"\\$`*?[](){}<>|&;!#~") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		parts = append(parts, arg)
	}
	return strings.Join(parts, " ")
}
