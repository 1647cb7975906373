package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

// newConfigCmd shows what can be configured.
func (a *app) newConfigCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show what can be configured",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	minimal := false
	defaults := &cobra.Command{
		Use:   "default",
		Short: "Print a configuration file with all keys, commented, at their defaults",
		Args:  cobra.NoArgs,
		RunE: a.action(func(*cobra.Command) error {
			text := config.DefaultYAML()
			if minimal {
				text = config.MinimalYAML()
			}
			_, err := fmt.Fprint(a.stdout, text)
			return err
		}),
	}
	defaults.Flags().BoolVar(&minimal, "minimal", false, "print only the keys that most users set")
	cmd.AddCommand(defaults, &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a configuration file, for editors",
		Args:  cobra.NoArgs,
		RunE: a.action(func(*cobra.Command) error {
			_, err := a.stdout.Write(config.Schema())
			return err
		}),
	}, &cobra.Command{
		Use:   "doc",
		Short: "Describe all fields, in Markdown",
		Args:  cobra.NoArgs,
		RunE: a.action(func(*cobra.Command) error {
			_, err := fmt.Fprint(a.stdout, config.Doc())
			return err
		}),
	}, &cobra.Command{
		Use:   "env",
		Short: "List the environment variables and the fields they set",
		Args:  cobra.NoArgs,
		RunE: a.action(func(*cobra.Command) error {
			names := config.EnvNames()
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				fmt.Fprintf(w, "%s\t%s\n", name, names[name])
			}
			return w.Flush()
		}),
	})
	return cmd
}
