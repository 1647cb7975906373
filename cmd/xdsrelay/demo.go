package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xdsrelay/relay/demo"
)

var errDemo = errors.New("demo: expected --clients from 1 to 10000, --every and --slow above 0 and --for of at least 0")

// newDemoCmd shows the relay at work, with nothing to install or configure.
func (a *app) newDemoCmd() *cobra.Command {
	cfg := demo.Config{Version: version, Out: a.stdout}
	nodes := 1
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a relay and a simulated fleet in this process",
		Long: "Serve a directory of example resources to a simulated fleet of clients of all\n" +
			"variants, through a real relay on loopback; change a resource every few seconds;\n" +
			"and show whom that reaches, and how fast. In the end the exit code is 0 if every\n" +
			"client holds the last state of the directory, byte by byte.\n\n" +
			"With --nodes, show a tier of several relays instead, each a process of its own, with\n" +
			"a Redis where redis-server is in PATH: kill the relay that owns a key, cut off the\n" +
			"control plane, and say what the clients notice. That ends by itself after a few seconds.",
		Example: "  xdsrelay demo\n" +
			"  xdsrelay demo --nodes 3\n" +
			"  xdsrelay demo --for 15s --clients 1000\n" +
			"  xdsrelay demo --dir ./resources",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			if cfg.Clients < 1 || cfg.Clients > 10_000 || cfg.Every <= 0 || cfg.Slow <= 0 || cfg.For < 0 {
				return usageError{errDemo}
			}
			if cmd.Flags().Changed("nodes") {
				return a.demoTier(cmd, nodes, cfg.Clients)
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
	flags.IntVar(&nodes, "nodes", 1, "show a tier of this many relays, 2 to 9; of the other flags only --clients applies")
	flags.IntVar(&cfg.Clients, "clients", 200, "how many clients there are")
	flags.DurationVar(&cfg.For, "for", 0, "end after this time with a summary; 0 means at an interrupt")
	flags.DurationVar(&cfg.Every, "every", demo.DefaultEvery, "the time from one change to the next")
	flags.DurationVar(&cfg.Slow, "slow", demo.DefaultSlow, "how long every tenth client takes over each response")
	flags.StringVar(&cfg.Listen, "listen", "", "the relay's xDS `ADDR`ess; a free port if empty")
	flags.StringVar(&cfg.Admin, "admin", "", "the relay's admin `ADDR`ess; a free port if empty")
	return cmd
}

// demoTier shows several relays, which are this program again.
func (a *app) demoTier(cmd *cobra.Command, nodes, clients int) error {
	var others []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "nodes" && f.Name != "clients" {
			others = append(others, "--"+f.Name)
		}
	})
	switch {
	case len(others) > 0:
		return usageError{fmt.Errorf("demo: --nodes cannot be combined with %s", strings.Join(others, ", "))}
	case nodes < 2 || nodes > demo.MostNodes:
		return usageError{fmt.Errorf("demo: --nodes is %d, expected 2 to %d", nodes, demo.MostNodes)}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	redis, _ := exec.LookPath("redis-server") // without it the relays have a list
	return demo.RunTier(cmd.Context(), demo.TierConfig{
		Nodes: nodes, Clients: clients, Version: version, Out: a.stdout, Redis: redis,
		Command: func(args ...string) *exec.Cmd {
			relay := exec.CommandContext(context.WithoutCancel(cmd.Context()), program, args...)
			relay.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "XDSRELAY_") })
			return relay
		},
	})
}
