package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// newCheckCmd finds mistakes before a node does.
func (a *app) newCheckCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration and what it refers to",
		Long: "Check a configuration file as run would read it, with environment variables and\n" +
			"flags. Rules are compiled, and the files of a directory origin are read. A\n" +
			"control plane is not contacted.",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			cfg, err := load(config.Input{File: file, Env: a.env, Flags: readSettings(cmd.Flags())})
			if err != nil {
				return err
			}
			if err := relay.CheckOrigin(cfg.Origin); err != nil {
				return err
			}
			a.printSummary(file, cfg)
			return nil
		}),
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration `FILE`")
	addSettings(cmd.Flags())
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag is defined just above
	}
	return cmd
}

func (a *app) printSummary(file string, cfg *config.Config) {
	fmt.Fprintf(a.stdout, "ok: %s\n", file)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  clients\t%s\n", cfg.Listen.Address)
	if cfg.Origin.Directory != "" {
		fmt.Fprintf(w, "  origin\tdirectory %s\n", cfg.Origin.Directory)
	} else {
		fmt.Fprintf(w, "  origin\t%s (%s)\n", strings.Join(cfg.Origin.Addresses, ", "), cfg.Origin.Variant)
	}
	for i, rule := range cfg.Aggregation.Rules {
		label, match := "", rule.Match
		if i == 0 {
			label = "rules"
		}
		if match == "" {
			match = "all"
		}
		fmt.Fprintf(w, "  %s\t%s: key %s for %s\n", label, rule.Name, strings.Join(strings.Fields(rule.Key), " "), strings.Join(strings.Fields(match), " "))
	}
	admin := cfg.Admin.Address
	if admin == "" {
		admin = "off"
	}
	fmt.Fprintf(w, "  admin\t%s\n", admin)
	_ = w.Flush() // standard output; there is nobody else to tell
}
