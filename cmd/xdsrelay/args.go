package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xdsrelay/relay/ops"
)

// The commands that list possible arguments.
const (
	keysHint    = "'xdsrelay keys' lists the keys"
	clientsHint = "'xdsrelay status' lists the clients"
)

// one accepts exactly one argument. The error names it, and the command that lists possible values.
func one(name, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return fmt.Errorf("expected one %s; %s", name, hint)
		}
		return nil
	}
}

// oneToThree accepts one, two or three arguments.
func oneToThree(what, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < 1 || len(args) > 3 || slices.Contains(args, "") {
			return fmt.Errorf("expected one %s; %s", what, hint)
		}
		return nil
	}
}

// atMostOne accepts one argument or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("expected at most one %s, got %s", name, strings.Join(args, " "))
		}
		return nil
	}
}

// noSuchCommand rejects a word that is not a command, and suggests similar commands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean("", cmd.SuggestionsFor(args[0])))
}

// flagError adds similar flags to the error about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	// Cobra compares names of commands only.
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return fmt.Errorf("%w%s", err, didYouMean("--", names.SuggestionsFor(unknown.GetSpecifiedName())))
}

// didYouMean suggests names; empty without any.
func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

// checkType returns an error unless --type is empty or names a type.
func checkType(name string) error {
	if name != "" && ops.TypeURL(name) == "" {
		return usageError{fmt.Errorf("--type: got %q, expected a type URL, its last part, or a name like CDS", name)}
	}
	return nil
}

// firstLine drops the lines that cobra adds to its errors.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
