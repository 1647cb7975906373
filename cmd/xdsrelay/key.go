package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// newKeyCmd explains aggregation rules.
func (a *app) newKeyCmd() *cobra.Command {
	var (
		file, nodeFile, peerFile string
		asJSON                   bool
	)
	cmd := &cobra.Command{
		Use:   "key --node FILE.json",
		Short: "Explain which aggregation key a client gets",
		Long: "Explain which rule matches a client, the key that it gives, and the Node that the\n" +
			"control plane is shown for the whole group. The exit code is 1 if the client\n" +
			"is refused.",
		Example: "  xdsrelay key --node node.json -c relay.yaml\n" +
			"  xdsrelay key --node bootstrap.json --key 'node.cluster + \"/\" + node.locality.zone'",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			cfg, err := load(config.Input{File: file, Env: a.env, Flags: readSettings(cmd.Flags()), WithoutOrigin: true})
			if err != nil {
				return err
			}
			node, err := os.ReadFile(nodeFile)
			if err != nil {
				return usageError{fmt.Errorf("node file: %w", err)}
			}
			var peer []byte
			if peerFile != "" {
				if peer, err = os.ReadFile(peerFile); err != nil {
					return usageError{fmt.Errorf("peer file: %w", err)}
				}
			}
			ex, err := relay.ExplainKey(cfg.Aggregation, node, peer, version)
			if err != nil {
				return usageError{err}
			}
			return a.printKey(ex, asJSON)
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "config", "c", "", "the configuration `FILE` with the rules; without it, the default rule")
	flags.StringVar(&nodeFile, "node", "", "`FILE` with the client's Node as JSON, or its bootstrap")
	flags.StringVar(&peerFile, "peer", "", "`FILE` with what the client's certificate proves, as JSON: authenticated, spiffe_id, dns_names, …")
	flags.String("key", "", "`CEL`: the only rule, in place of those of the configuration")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	if err := cmd.MarkFlagRequired("node"); err != nil {
		panic(err) // the flag is defined just above
	}
	return cmd
}

func (a *app) printKey(ex relay.KeyExplanation, asJSON bool) error {
	if asJSON {
		out, err := json.MarshalIndent(ex, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", out)
	} else {
		fmt.Fprint(a.stdout, ex)
	}
	if ex.Refused() {
		return errors.New("the client is refused")
	}
	return nil
}
