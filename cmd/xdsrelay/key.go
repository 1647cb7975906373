package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"xdsrelay/relay"
)

// newKeyCmd explains aggregation rules.
func (a *app) newKeyCmd() *cobra.Command {
	var (
		k      keyFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "key --node FILE",
		Short: "Explain which aggregation key a client gets",
		Long: "Explain which rule matches a client, the key that it gives, and the Node that the\n" +
			"control plane is shown for the whole group. The exit code is 1 if the client\n" +
			"is refused. Nothing has to run for that; 'key explain' asks a running node.",
		Example: "  xdsrelay key --node node.json -c relay.yaml\n" +
			"  xdsrelay key --node envoy.yaml --key 'node.cluster + \"/\" + node.locality.zone'",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			node, peer, err := k.read()
			if err != nil {
				return err
			}
			ex, err := a.explain(cmd, k, node, peer)
			if err != nil {
				return err
			}
			return a.printKey(ex, asJSON)
		}),
	}
	k.add(cmd, "the default rule")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(a.newKeyExplainCmd())
	return cmd
}

// errRefused makes a command fail that has said why.
var errRefused = errors.New("the client is refused")

func (a *app) printKey(ex relay.KeyExplanation, asJSON bool) error {
	if asJSON {
		out, err := json.MarshalIndent(ex, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", printableJSON(out))
	} else {
		fmt.Fprint(a.stdout, printableLines(ex.String()))
	}
	if ex.Refused() {
		return errRefused
	}
	return nil
}
