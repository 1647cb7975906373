package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// What lists the things that commands are about.
const (
	keysHint    = "'xdsrelay keys' lists the keys"
	clientsHint = "'xdsrelay status' lists the clients"
)

// one takes one argument, and says what it is and how to find it where it is missing.
func one(what, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return fmt.Errorf("expected one %s; %s", what, hint)
		}
		return nil
	}
}

// atMostOne takes an argument, or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("expected one %s at most, got %s", what, strings.Join(args, " "))
		}
		return nil
	}
}

// noSuchCommand refuses a word that is no command, and names those that are spelt nearly so.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}

// checkType tells whether --type names a type; it may be left out.
func checkType(name string) error {
	if name != "" && ops.TypeURL(name) == "" {
		return usageError{fmt.Errorf("--type: got %q, expected a type URL, its last part, or a name like CDS", name)}
	}
	return nil
}
