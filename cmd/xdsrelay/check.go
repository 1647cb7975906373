package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// newCheckCmd finds mistakes before a node does.
func (a *app) newCheckCmd() *cobra.Command {
	var (
		file    string
		connect bool
	)
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration and what it refers to",
		Long: "Check a configuration file as run would read it, with environment variables and\n" +
			"flags. Rules are compiled, the files of directory origins are read, and what fields\n" +
			"refer to has to be usable here and now: certificates valid, directories readable,\n" +
			"last_known_good.directory writable.\n\n" +
			"With --connect, each control plane is connected to with TLS, and a stream of xDS\n" +
			"is opened on it, on which nothing is asked for. In the Redis of a tier everything is\n" +
			"tried that a node needs, under names of its own, which are removed.",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			in := config.Input{File: file, Env: a.env, Flags: readSettings(cmd.Flags()), Files: true}
			cfg, err := load(in)
			if err != nil {
				return err
			}
			if err := relay.CheckOrigins(cfg); err != nil {
				return err
			}
			a.printSummary(file, cfg)
			a.printOverrides(config.Overrides(in))
			for _, w := range append(config.UnknownVariables(a.env), cfg.Warnings()...) {
				fmt.Fprintf(a.stderr, "warning: %s\n", w)
			}
			if !connect {
				return nil
			}
			return relay.CheckConnections(cmd.Context(), cfg, func(section, address string) {
				fmt.Fprintf(a.stdout, "connected: %s: %s\n", section, address)
			})
		}),
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration `FILE`")
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to the control planes and Redis, with TLS where configured, and try them")
	addSettings(cmd.Flags())
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag is defined just above
	}
	return cmd
}

// whereIs says where an origin is.
func whereIs(o config.Upstream) string {
	if o.Directory != "" {
		return "directory " + o.Directory
	}
	secured := "plaintext"
	if o.TLS.On() {
		secured = "TLS"
	}
	return fmt.Sprintf("%s (%s, %s)", strings.Join(o.Addresses, ", "), o.Variant, secured)
}

// howToConnect says where a port for clients is, and what it asks of them.
func howToConnect(address string, t config.ServerTLS) string {
	switch {
	case !t.On():
		return address + " (plaintext)"
	case !t.AsksClients():
		return address + " (TLS)"
	case t.ClientAuth == config.ClientAuthOptional:
		return address + " (TLS, client certificates optional)"
	}
	return address + " (TLS, client certificates required)"
}

// printOverrides prints where values that do not come from the file come from.
func (a *app) printOverrides(all []config.Override) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, "overrides:")
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, o := range all {
		instead := "the default"
		if len(o.Instead) > 0 {
			instead = strings.Join(o.Instead, ", ")
		}
		fmt.Fprintf(w, "  %s\tfrom %s, instead of %s\n", o.Field, o.Source, instead)
	}
	_ = w.Flush() // as for all output
}

// labeled adds the name of a listener or upstream to a label, unless it is the only one.
func labeled(label, name string) string {
	if name == config.DefaultName {
		return label
	}
	return label + " " + name
}

func (a *app) printSummary(file string, cfg *config.Config) {
	fmt.Fprintf(a.stdout, "ok: %s\n", file)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, l := range cfg.AllListeners() {
		fmt.Fprintf(w, "  %s\t%s\n", labeled("clients", l.Name), howToConnect(l.Address, l.TLS))
	}
	if cfg.REST.Address != "" {
		fmt.Fprintf(w, "  clients that poll\t%s\n", howToConnect(cfg.REST.Address, cfg.REST.TLS))
	}
	for i, o := range cfg.AllUpstreams() {
		serves := slices.Clone(o.Types)
		for _, a := range o.Authorities {
			serves = append(serves, "xdstp://"+a+"/")
		}
		only := ""
		if i > 0 {
			only = " for " + strings.Join(serves, ", ")
		}
		fmt.Fprintf(w, "  %s\t%s%s\n", labeled("upstream", o.Name), whereIs(o.Upstream), only)
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
	if t := cfg.Tier; t.On() {
		by := "by Redis" // not the URL, which may hold a password
		if len(t.Nodes) > 0 {
			by = "of " + strings.Join(t.Nodes, ", ")
		}
		fmt.Fprintf(w, "  tier\t%s; peers connect to %s\n", by, t.Peer.Address)
	}
	admin := cfg.Admin.Address
	if admin == "" {
		admin = "off"
	}
	fmt.Fprintf(w, "  admin\t%s\n", admin)
	_ = w.Flush() // standard output; there is nobody else to tell
}
