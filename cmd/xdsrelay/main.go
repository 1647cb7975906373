// Command xdsrelay is a relay between an xDS control plane and its clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

func main() {
	// The first signal drains the node, a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// app is the state that the commands share.
type app struct {
	env            []string
	stdout, stderr io.Writer
	began          bool // a command's own work has begun: its command line was correct

	// dial connects to admin ports; nil means over TCP. Tests in virtual time have a network of
	// their own.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// usageError is a mistake of the user, except for those in the configuration.
type usageError struct{ error }

// errQuiet is an error that the output has already explained.
type errQuiet struct{ error }

// run runs the program and returns the exit code.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	return (&app{env: env, stdout: stdout, stderr: stderr}).run(ctx, args)
}

// run runs the command that args name, and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	stdout, stderr := a.stdout, a.stderr
	root := a.newRootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var (
		wrong *config.Error
		usage usageError
		quiet errQuiet
	)
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "xdsrelay: the configuration has %s:\n%s\n", count(len(wrong.Problems), "error"), printableLines(err.Error()))
	case errors.As(err, &quiet):
		return exitError
	case !a.began:
		fmt.Fprintf(stderr, "xdsrelay: %s\nSee '%s --help'.\n", printable(firstLine(err)), cmd.CommandPath())
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "xdsrelay: %s\n", printableLines(err.Error()))
	default:
		fmt.Fprintf(stderr, "xdsrelay: %s\n", printableLines(err.Error()))
		return exitError
	}
	return exitUsage
}

// group is a heading of the list of commands with the commands below it.
type group struct {
	id, title string
	commands  []*cobra.Command
}

// newRootCmd returns the command with all others below it.
func (a *app) newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "xdsrelay",
		Short: "A relay between an xDS control plane and its clients",
		Long: "xdsrelay is a relay between an xDS control plane and its Envoy and gRPC clients. It\n" +
			"opens one stream to the control plane for each aggregation key, caches the\n" +
			"resources, and sends them to all clients with that key.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		// Called without a command.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("xdsrelay {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	for _, g := range []group{
		{"run", "Run a node:", []*cobra.Command{a.newRunCmd(), a.newDemoCmd()}},
		{"configure", "Configure nodes and clients:", []*cobra.Command{a.newConfigCmd(), a.newBootstrapCmd()}},
		{"inspect", "Inspect a running tier:", []*cobra.Command{
			a.newStatusCmd(), a.newWhoCmd(), a.newNodesCmd(), a.newKeysCmd(), a.newExplainCmd(), a.newDiffCmd(), a.newDumpCmd(), a.newHistoryCmd(), a.newEventsCmd(), a.newTopCmd(),
			a.newClientCmd(),
		}},
		{"operate", "Operate a running tier:", []*cobra.Command{
			a.newRemovalsCmd(), a.newRolloutCmd(), a.newRulesCmd(), a.newDrainCmd(), a.newReloadCmd(), a.newReconnectCmd(), a.newKickCmd(), a.newResendCmd(), a.newLogLevelCmd(),
		}},
		{"migrate", "Migrate from xds-relay:", []*cobra.Command{a.newMigrateCmd()}},
		{"tool", "About this tool:", []*cobra.Command{a.newContextCmd(), a.newVersionCmd()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	listExitCodes(root)
	return root
}

// newParentCmd returns a command that only has others below it.
func newParentCmd(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// action marks a command's own work: from there on, an error is not one of the command line unless
// it is a usageError.
func (a *app) action(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		return work(cmd, args)
	}
}

// load reads the configuration. Every error in it is a mistake of the user.
func load(in config.Input) (*config.Config, error) {
	cfg, err := config.Load(in)
	var wrong *config.Error
	if err != nil && !errors.As(err, &wrong) {
		err = usageError{err}
	}
	return cfg, err
}

// require marks a flag as required.
func require(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag is not defined
	}
}
