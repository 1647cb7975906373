package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"xdsrelay/bench/report"
)

// newRunCmd measures one target.
func (a *app) newRunCmd() *cobra.Command {
	var m measuring
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Take the relay, or another target, through a scenario",
		Long: "Start an origin, a target and a fleet as processes of their own, take them through\n" +
			"a scenario, and report what the target used. The exit code is 1 if that failed, or\n" +
			"if clients saw the protocol broken.",
		Example: "  xdsbench run steady\n" +
			"  xdsbench run outage-idle --clients 5000 --variant delta\n" +
			"  xdsbench run steady --target 'command:./server --upstream {{.Origin}} --port {{.Port}}'",
		Args: func(_ *cobra.Command, args []string) error { return scenariosGiven(args, 1) },
	}
	m.addFlags(cmd, 1)
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		return m.measure(cmd.Context(), a, cmd.Flags().Args(), []string{report.RelayTarget})
	})
	return cmd
}

// scenariosGiven refuses a command line without a scenario, or with more than may be.
func scenariosGiven(args []string, most int) error {
	if len(args) == 0 || len(args) > most {
		return fmt.Errorf("expected a SCENARIO, got %d; 'xdsbench scenarios' lists them", len(args))
	}
	return nil
}

// newCompareCmd measures targets side by side.
func (a *app) newCompareCmd() *cobra.Command {
	var m measuring
	cmd := &cobra.Command{
		Use:   "compare SCENARIO…",
		Short: "Take several targets through scenarios in turn, and compare them",
		Long: "Take each target through each scenario, round by round, with another target first\n" +
			"in each round, and report medians, their spread, and the ratios to the first\n" +
			"target. Where the relay has a target value, the report shows whether it is met.\n" +
			"With --strict, memory and allocations above their limits are a failure.",
		Example: "  xdsbench compare steady\n" +
			"  xdsbench compare clients --clients 1000,5000,10000 --rounds 5 --keep bench/results\n" +
			"  xdsbench compare steady --target floor --target relay:/tmp/old/xdsrelay --target relay",
		Args: func(_ *cobra.Command, args []string) error { return scenariosGiven(args, len(args)) },
	}
	m.addFlags(cmd, 3)
	cmd.RunE = a.action(func(cmd *cobra.Command) error { return m.measure(cmd.Context(), a, cmd.Flags().Args(), nil) })
	return cmd
}
