package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // the command failed
	exitUsage = 2 // the command line or the configuration is wrong
)

// exitCodesKey is the annotation of a command that lists its exit codes.
const exitCodesKey = "exit codes"

// exitCodeTable is the table of exit codes that --help and the reference show.
func exitCodeTable(ok, failed, wrong string) string {
	return fmt.Sprintf("  %d  %s\n  %d  %s\n  %d  %s\n", exitOK, ok, exitError, failed, exitUsage, wrong)
}

// The meanings of the exit codes, unless a command has others.
const (
	usuallyOK     = "success"
	usuallyFailed = "the command failed"
	usuallyWrong  = "the command line or the configuration is wrong"
)

// exitCodes sets the exit codes of a command that differ from the usual ones.
func exitCodes(cmd *cobra.Command, ok, failed, wrong string) {
	cmd.Annotations = map[string]string{exitCodesKey: exitCodeTable(ok, failed, wrong)}
}

// exitCodesOf returns the table of a command; own reports whether it differs from the usual one.
func exitCodesOf(cmd *cobra.Command) (table string, own bool) {
	usual := exitCodeTable(usuallyOK, usuallyFailed, usuallyWrong)
	if table = cmd.Annotations[exitCodesKey]; table == "" {
		return usual, false
	}
	return table, table != usual
}

// listExitCodes makes --help of all commands list the exit codes.
func listExitCodes(root *cobra.Command) {
	root.SetUsageTemplate(root.UsageTemplate() + "{{with index .Annotations \"" + exitCodesKey + "\"}}\nExit codes:\n{{.}}{{end}}")
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if _, own := exitCodesOf(c); !own {
			exitCodes(c, usuallyOK, usuallyFailed, usuallyWrong)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
