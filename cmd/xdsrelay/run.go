package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/grpclog"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
)

// newRunCmd runs a node.
func (a *app) newRunCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a node",
		Long: "Run a node until SIGTERM or SIGINT. It then drains: it closes the streams of its\n" +
			"clients over the drain time, and exits. A second signal ends the process at once. The\n" +
			"node reloads its configuration when the file changes and on SIGHUP; 'xdsrelay config\n" +
			"default' shows which fields need a restart.",
		Example: "  xdsrelay run -c relay.yaml\n" +
			"  xdsrelay run --upstream control-plane:18000 --upstream-variant sotw --" + keyFlag + " node.cluster\n" +
			"  xdsrelay run --upstream ./resources",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command, _ []string) error {
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
			ctx, end := context.WithCancel(cmd.Context())
			var memory sync.WaitGroup
			memory.Go(func() { returnMemory(ctx) })
			defer memory.Wait()
			defer end()
			return node.Run(cmd.Context())
		}),
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", configUsage)
	addSettings(cmd.Flags())
	exitCodes(cmd, "the node was stopped and has drained", "the node could not start, or failed", usuallyWrong)
	return cmd
}
