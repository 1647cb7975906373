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

// newConfigValidateCmd finds mistakes before a node does.
func (a *app) newConfigValidateCmd() *cobra.Command {
	var (
		file             string
		connect, running bool
	)
	cmd := &cobra.Command{
		Use:   "validate -c FILE",
		Short: "Validate a configuration file and everything that it refers to",
		Long: "Validate a configuration file, with environment variables and flags, as 'xdsrelay run'\n" +
			"reads it: compile the rules, read the files of upstream directories, and check that\n" +
			"certificates are valid, directories are readable, and the directory of last known good\n" +
			"is writable.\n\n" +
			"With --connect, also connect to each control plane and open an xDS stream without\n" +
			"subscribing to anything. In the Redis of a tier, run every operation that a node needs,\n" +
			"on keys that the command then removes.\n\n" +
			"With --against-running, also ask a running tier what the configuration would change:\n" +
			"how many clients would change their key, from which to which; which rules would refuse\n" +
			"clients; which limits today's clients would exceed; and which fields differ, with those\n" +
			"that need a restart. Nothing changes in the tier. It needs the right of an operator,\n" +
			"since rules can show any field of a client's Node. Nodes keep a part of each Node; if the\n" +
			"rules read more, the result for the client is unknown. The nodes receive the rules, and\n" +
			"digests of all other fields.",
		Example: "  xdsrelay config validate -c relay.yaml\n" +
			"  xdsrelay config validate -c relay.yaml --connect\n" +
			"  xdsrelay config validate -c new.yaml --against-running",
		Args: cobra.NoArgs,
	}
	addSettings(cmd.Flags())
	cmd.Flags().Lookup("admin").Usage += "; with --against-running, the address of the node to ask instead"
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := checkAgainst(cmd, out, running); err != nil {
			return err
		}
		settings := readSettings(cmd.Flags())
		if running {
			settings = slices.DeleteFunc(settings, func(f config.Flag) bool { return f.Field == "admin.address" })
		}
		in := config.Input{File: file, Env: a.env, Flags: settings, Files: true}
		cfg, err := load(in)
		if err != nil {
			return err
		}
		if err := relay.CheckOrigins(cfg); err != nil {
			return err
		}
		if out.isData() || out.form == asName {
			return node.against(cmd.Context(), out, cfg)
		}
		a.printSummary(file, cfg)
		a.printOverrides(config.Overrides(in))
		for _, w := range append(config.UnknownVariables(a.env), cfg.Warnings()...) {
			fmt.Fprintf(a.stderr, "warning: %s\n", w)
		}
		if connect {
			if err := relay.CheckConnections(cmd.Context(), cfg, func(section, address string) {
				fmt.Fprintf(a.stdout, "connected: %s: %s\n", section, address)
			}); err != nil {
				return err
			}
		}
		if running {
			return node.against(cmd.Context(), out, cfg)
		}
		return nil
	})
	cmd.Flags().StringVarP(&file, "config", "c", "", configUsage)
	cmd.Flags().BoolVar(&connect, "connect", false, "also connect to the control planes and Redis, and test them")
	cmd.Flags().BoolVar(&running, "against-running", false, "also show what the configuration would change in the running tier")
	require(cmd, "config")
	exitCodes(cmd, "the configuration is valid", "a file, control plane or Redis that it refers to does not work, or a node of the tier does not answer", usuallyWrong)
	return cmd
}

// whereIs returns the address of an upstream.
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

// howToConnect returns the address of a port for clients, and its security.
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
		fmt.Fprintf(w, "  polling clients\t%s\n", howToConnect(cfg.REST.Address, cfg.REST.TLS))
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
			match = "all clients"
		}
		fmt.Fprintf(w, "  %s\t%s: key %s for %s\n", label, rule.Name, strings.Join(strings.Fields(rule.Key), " "), strings.Join(strings.Fields(match), " "))
	}
	if t := cfg.Tier; t.On() {
		by := "Redis" // not the URL, which may hold a password
		if len(t.Nodes) > 0 {
			by = strings.Join(t.Nodes, ", ")
		}
		fmt.Fprintf(w, "  tier\t%s; peer address %s\n", by, t.Peer.Address)
	}
	admin := cfg.Admin.Address
	if admin == "" {
		admin = "disabled"
	}
	fmt.Fprintf(w, "  admin\t%s\n", admin)
	_ = w.Flush() // standard output; an error cannot be reported elsewhere
}
