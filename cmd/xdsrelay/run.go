package main

import (
	"github.com/spf13/cobra"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
)

// newRunCmd is the relay itself.
func (a *app) newRunCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a relay node",
		Long: "Run a relay node until SIGTERM or SIGINT, then send its clients away over the\n" +
			"drain time and end. A second signal ends it at once.",
		Example: "  xdsrelay run -c relay.yaml\n" +
			"  xdsrelay run --upstream control-plane:18000 --upstream-variant sotw --key node.cluster\n" +
			"  xdsrelay run --upstream ./resources",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			cfg, err := load(config.Input{File: file, Env: a.env, Flags: readSettings(cmd.Flags())})
			if err != nil {
				return err
			}
			log := relay.NewLogger(a.stderr, cfg.Log)
			limitMemory(log)
			node, err := relay.New(cfg, relay.Options{Version: version, Logger: log})
			if err != nil {
				return err
			}
			return node.Run(cmd.Context())
		}),
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration `FILE`; flags override it")
	addSettings(cmd.Flags())
	return cmd
}
