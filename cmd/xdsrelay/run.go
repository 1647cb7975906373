package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
)

// newRunCmd is the relay itself.
func (a *app) newRunCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a relay node",
		Long: "Run a relay node until SIGTERM or SIGINT, then send its clients away over the\n" +
			"drain time and end. A second signal ends it at once. The configuration is read again\n" +
			"when its file changes and on SIGHUP; 'config default' says what may change so.",
		Example: "  xdsrelay run -c relay.yaml\n" +
			"  xdsrelay run --upstream control-plane:18000 --upstream-variant sotw --key node.cluster\n" +
			"  xdsrelay run --upstream ./resources",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			from := func() (*config.Config, error) {
				return load(config.Input{File: file, Env: a.env, Flags: readSettings(cmd.Flags())})
			}
			cfg, err := from()
			if err != nil {
				return err
			}
			log, levels := relay.NewLogger(a.stderr, cfg.Log)
			grpclog.SetLoggerV2(logs.ForGRPC(log))
			for _, w := range config.UnknownVariables(a.env) {
				log.Warn("unknown environment variable", "warning", w)
			}
			limitMemory(log)
			hangUps := make(chan os.Signal, 1)
			signal.Notify(hangUps, syscall.SIGHUP)
			defer signal.Stop(hangUps)
			node, err := relay.New(cfg, relay.Options{Version: version, Logger: log, Levels: levels,
				Serving: func() { notifySystemd("READY=1") }, Draining: func() { notifySystemd("STOPPING=1") },
				Source: relay.Source{File: file, Load: from, Signals: hangUps}})
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
