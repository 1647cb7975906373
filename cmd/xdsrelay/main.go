// Command xdsrelay is a relay between an xDS control plane and the clients that
// it configures.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // something failed
	exitUsage = 2 // the command line or the configuration is wrong
)

func main() {
	// The first signal ends the program in order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// app is what the commands share.
type app struct {
	env            []string
	stdout, stderr io.Writer
	began          bool // a command's own work, so that the usage was right

	// dial connects with admin ports; nil means over TCP. Tests in virtual time have a network of
	// their own.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// usageError is a mistake of the user's, beside those in the configuration.
type usageError struct{ error }

// run is the program: it returns the exit code.
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
		fmt.Fprintf(stderr, "xdsrelay: the configuration has %s:\n%s\n", plural(len(wrong.Problems), "mistake"), printableLines(err.Error()))
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

// newRootCmd puts the commands together.
func (a *app) newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "xdsrelay",
		Short: "A relay between an xDS control plane and the clients that it configures",
		Long: "xdsrelay holds one stream to the xDS control plane for each group of clients that\n" +
			"want the same configuration, keeps what arrives in memory, and passes it on to\n" +
			"thousands of Envoys and gRPC clients.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		// Called without a command.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		a.newRunCmd(),
		a.newCheckCmd(),
		a.newBootstrapCmd(),
		a.newMigrateCmd(),
		a.newKeyCmd(),
		a.newMembersCmd(),
		a.newKeysCmd(),
		a.newStatusCmd(),
		a.newDiffCmd(),
		a.newDumpCmd(),
		a.newHistoryCmd(),
		a.newTopCmd(),
		a.newReleaseCmd(),
		a.newDrainCmd(), a.newReloadCmd(), a.newReconnectCmd(), a.newLogCmd(),
		a.newDemoCmd(),
		a.newConfigCmd(),
		a.newVersionCmd(),
	)
	return root
}

// action is a command's own work: an error of it is not one of usage, unless it
// says so.
func (a *app) action(work func(cmd *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		a.began = true
		return work(cmd)
	}
}

// load reads the configuration; all that goes wrong there is the user's mistake.
func load(in config.Input) (*config.Config, error) {
	cfg, err := config.Load(in)
	var wrong *config.Error
	if err != nil && !errors.As(err, &wrong) {
		err = usageError{err}
	}
	return cfg, err
}

// firstLine drops the suggestions that cobra adds below.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// plural counts things in words.
func plural(n int, thing string) string {
	if n == 1 {
		return "a " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
