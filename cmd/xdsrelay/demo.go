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

var errDemo = errors.New("expected --clients from 1 to 10000, --every and --slow above 0, and --for of at least 0")

// newDemoCmd shows a relay without anything to install or configure.
func (a *app) newDemoCmd() *cobra.Command {
	cfg := demo.Config{Version: version, Out: a.stdout}
	nodes, rollout := 1, false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a relay with simulated clients in this process",
		Long: "Run a relay on loopback with a directory of example resources as its upstream and with\n" +
			"simulated clients of all variants. Change a resource every few seconds, and show which\n" +
			"clients get the change and how fast.\n\n" +
			"With --nodes, run a tier of several relays instead, each in its own process, with a\n" +
			"Redis if redis-server is in PATH: kill the relay that owns a key, disconnect the\n" +
			"control plane, and show what clients notice. This ends after a few seconds.\n\n" +
			"With --rollout, show a rollout policy instead: a good version reaches a few clients first\n" +
			"and then all, and a bad one is taken back from the first that reject it. This ends after\n" +
			"less than a minute; on a terminal, the live page stays until you press Ctrl-C.",
		Example: "  xdsrelay demo\n" +
			"  xdsrelay demo --nodes 3\n" +
			"  xdsrelay demo --rollout\n" +
			"  xdsrelay demo --for 15s --clients 1000\n" +
			"  xdsrelay demo --dir ./resources",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command, _ []string) error {
			if cfg.Clients < 1 || cfg.Clients > 10_000 || cfg.Every <= 0 || cfg.Slow <= 0 || cfg.For < 0 {
				return usageError{errDemo}
			}
			switch {
			case rollout:
				return a.demoRollout(cmd, &cfg)
			case cmd.Flags().Changed("nodes"):
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
	flags.StringVar(&cfg.Dir, "dir", "", "`DIRECTORY` of resources to serve, which the demo only watches (default: examples, which it changes)")
	flags.IntVar(&nodes, "nodes", 1, "`NUMBER` of relays in a tier, from 2 to 9; with it, --clients is the only other flag")
	flags.BoolVar(&rollout, "rollout", false, "show a rollout policy; with it, --clients, --listen and --admin are the only other flags")
	flags.IntVar(&cfg.Clients, "clients", 200, "`NUMBER` of clients")
	flags.DurationVar(&cfg.For, "for", 0, forUsage)
	flags.DurationVar(&cfg.Every, "every", demo.DefaultEvery, "time between two changes")
	flags.DurationVar(&cfg.Slow, "slow", demo.DefaultSlow, "time that each tenth client needs for a response")
	flags.StringVar(&cfg.Listen, "listen", "", "`ADDR` for xDS clients (default: a free port)")
	flags.StringVar(&cfg.Admin, "admin", "", "`ADDR` of the admin port (default: a free port)")
	exitCodes(cmd, "every client has the last state of the directory", "a client has something else, or the demo failed", usuallyWrong)
	return cmd
}

// demoTier shows several relays, which are processes of this program.
func (a *app) demoTier(cmd *cobra.Command, nodes, clients int) error {
	if err := onlyFlags(cmd, "nodes", "clients"); err != nil {
		return err
	}
	if nodes < 2 || nodes > demo.MostNodes {
		return usageError{fmt.Errorf("--nodes: got %d, expected 2 to %d", nodes, demo.MostNodes)}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	redis, _ := exec.LookPath("redis-server") // without it the relays have a list of nodes
	return demo.RunTier(cmd.Context(), demo.TierConfig{
		Nodes: nodes, Clients: clients, Version: version, Out: a.stdout, Redis: redis,
		Command: func(args ...string) *exec.Cmd {
			relay := exec.CommandContext(context.WithoutCancel(cmd.Context()), program, args...)
			relay.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "XDSRELAY_") })
			return relay
		},
	})
}

// demoRollout shows a relay with a rollout policy.
func (a *app) demoRollout(cmd *cobra.Command, cfg *demo.Config) error {
	if err := onlyFlags(cmd, "rollout", "clients", "listen", "admin"); err != nil {
		return err
	}
	return demo.RunRollout(cmd.Context(), demo.RolloutConfig{
		Clients: cfg.Clients, Listen: cfg.Listen, Admin: cfg.Admin, Version: version, Out: a.stdout, Stays: demo.Terminal(a.stdout, a.env),
	})
}

// onlyFlags returns what is wrong if flags were set that the first one cannot be combined with.
func onlyFlags(cmd *cobra.Command, names ...string) error {
	var others []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			others = append(others, "--"+f.Name)
		}
	})
	if len(others) > 0 {
		return usageError{fmt.Errorf("--%s cannot be combined with %s", names[0], strings.Join(others, ", "))}
	}
	return nil
}
