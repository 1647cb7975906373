package main

import (
	"errors"

	"github.com/spf13/cobra"

	"xdsrelay/relay/demo"
)

var errDemo = errors.New("demo: expected --clients from 1 to 10000, --every and --slow above 0 and --for of at least 0")

// newDemoCmd shows the relay at work, with nothing to install or configure.
func (a *app) newDemoCmd() *cobra.Command {
	cfg := demo.Config{Version: version, Out: a.stdout}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a relay and a simulated fleet in this process",
		Long: "Serve a directory of example resources to a simulated fleet of clients of all\n" +
			"variants, through a real relay on loopback; change a resource every few seconds;\n" +
			"and show whom that reaches, and how fast. In the end the exit code is 0 if every\n" +
			"client holds the last state of the directory, byte by byte.",
		Example: "  xdsrelay demo\n" +
			"  xdsrelay demo --for 15s --clients 1000\n" +
			"  xdsrelay demo --dir ./resources",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			if cfg.Clients < 1 || cfg.Clients > 10_000 || cfg.Every <= 0 || cfg.Slow <= 0 || cfg.For < 0 {
				return usageError{errDemo}
			}
			cfg.Live = demo.Terminal(a.stdout, a.env)
			err := demo.Run(cmd.Context(), cfg)
			if errors.Is(err, demo.ErrDirectory) {
				return usageError{err}
			}
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Dir, "dir", "", "serve this `DIRECTORY`, which is watched and not changed, in place of the examples")
	flags.IntVar(&cfg.Clients, "clients", 200, "how many clients there are")
	flags.DurationVar(&cfg.For, "for", 0, "end after this time with a summary; 0 means at an interrupt")
	flags.DurationVar(&cfg.Every, "every", demo.DefaultEvery, "the time from one change to the next")
	flags.DurationVar(&cfg.Slow, "slow", demo.DefaultSlow, "how long every tenth client takes over each response")
	flags.StringVar(&cfg.Listen, "listen", "", "the relay's xDS `ADDR`ess; a free port if empty")
	flags.StringVar(&cfg.Admin, "admin", "", "the relay's admin `ADDR`ess; a free port if empty")
	return cmd
}
