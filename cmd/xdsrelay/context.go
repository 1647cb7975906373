package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// newContextCmd is about the tiers that a user operates.
func (a *app) newContextCmd() *cobra.Command {
	cmd := newParentCmd("context", "List contexts and switch between them", a.newContextListCmd(), a.newContextUseCmd())
	cmd.Long = "List contexts and switch between them. A context contains how to reach the admin port of a\n" +
		"node of one tier. Contexts are in ~/.config/xdsrelay/config.yaml, or in\n" +
		"$XDG_CONFIG_HOME/xdsrelay/config.yaml:\n\n" +
		"  current_context: production\n" +
		"  contexts:\n" +
		"    - name: production\n" +
		"      admin: https://relay.example:19000\n" +
		"      ca_file: ca.pem            # relative to the folder of this file\n" +
		"      cert_file: operator.pem\n" +
		"      key_file: operator.key\n" +
		"      token_file: token\n" +
		"    - name: local\n" +
		"      admin: 127.0.0.1:19000\n\n" +
		"A command that connects to a node uses, in this order: --admin, --context, the\n" +
		"environment variable XDSRELAY_CLI_ADMIN, the current context, 127.0.0.1:19000. With a\n" +
		"context, the command ignores XDSRELAY_CLI_ADMIN_TOKEN_FILE. Flags such as --admin-ca\n" +
		"override single fields of a context."
	return cmd
}

// listedContext is one line of the list.
type listedContext struct {
	tierContext

	Current bool `json:"current"`
}

// newContextListCmd lists the contexts.
func (a *app) newContextListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		Long:  "List the contexts. A * marks the current one.",
		Args:  cobra.NoArgs,
	}
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		all, err := readContexts(a.env)
		if err != nil {
			return err
		}
		list := []listedContext{}
		for _, one := range all.All {
			list = append(list, listedContext{one, one.Name == all.Current})
		}
		return out.print(a.stdout, view{
			data:  map[string]any{"contexts": list},
			names: namesOf(list, func(one *listedContext) string { return one.Name }),
			table: func(w io.Writer, wide bool) {
				if len(list) == 0 {
					fmt.Fprintf(w, "no contexts; 'xdsrelay context --help' shows the file %s\n", printable(all.path))
					return
				}
				contextTable(w, list, wide)
			},
		})
	})
	return cmd
}

func contextTable(w io.Writer, list []listedContext, wide bool) {
	header := []string{"CURRENT", "NAME", "ADMIN"}
	if wide {
		header = append(header, "CA FILE", "CERT FILE", "KEY FILE", "TOKEN FILE")
	}
	rows := [][]string{header}
	for _, one := range list {
		row := []string{"", one.Name, one.Admin}
		if one.Current {
			row[0] = "*"
		}
		if wide {
			row = append(row, one.CAFile, one.CertFile, one.KeyFile, one.TokenFile)
		}
		rows = append(rows, row)
	}
	columns(w, rows)
}

// newContextUseCmd switches to a context.
func (a *app) newContextUseCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Long:              "Make a context the current one, for this command and all later ones.",
		Example:           "  xdsrelay context use production",
		Args:              one("NAME", contextsHint),
		ValidArgsFunction: a.completeContexts,
		RunE: a.action(func(_ *cobra.Command, args []string) error {
			all, err := readContexts(a.env)
			if err != nil {
				return err
			}
			if err := all.use(args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "switched to context %q\n", args[0])
			return err
		}),
	}
}

// completeContexts completes the name of a context.
func (a *app) completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := readContexts(a.env)
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(namesOf(all.All, func(c *tierContext) string { return c.Name }), func(n string) bool { return printable(n) != n })
	return names, cobra.ShellCompDirectiveNoFileComp
}
