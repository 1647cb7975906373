package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"xdsrelay/bench/scenario"
)

// newScenariosCmd lists what there is.
func (a *app) newScenariosCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "scenarios",
		Short: "List the scenarios, and what each answers",
		Args:  cobra.NoArgs,
		RunE: a.action(func(*cobra.Command) error {
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, s := range scenario.All() {
				fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Answers)
				for _, setup := range s.Setups {
					fmt.Fprintf(w, "\t  %s\n", setup)
				}
				fmt.Fprintf(w, "\t  of %s\n", strings.Join(s.Targets, ", "))
			}
			return w.Flush()
		}),
	}
}
