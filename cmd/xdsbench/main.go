// Command xdsbench loads a relay, or another xDS server, with simulated clients,
// and compares what it costs with references on the same machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitOK    = 0
	exitError = 1 // something failed
	exitUsage = 2 // the command line is wrong
)

func main() {
	// The first signal ends the program in order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// app is what the commands share. Results go to stdout, or, of a child, its
// replies; progress goes to stderr.
type app struct {
	stdin          io.Reader // a child's orders
	stdout, stderr io.Writer
	commandLine    string // what was called
	began          bool   // a command's own work, so that the usage was right
}

// usageError is a mistake of the user's that shows only in a command's own work.
type usageError struct{ error }

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, commandLine: quoted(append([]string{"xdsbench"}, args...))}
	root := a.newRootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var usage usageError
	switch {
	case !a.began:
		line, _, _ := strings.Cut(err.Error(), "\n") // cobra adds suggestions below
		fmt.Fprintf(stderr, "xdsbench: %s\nSee '%s --help'.\n", line, cmd.CommandPath())
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "xdsbench: %v\n", err)
	default:
		fmt.Fprintf(stderr, "xdsbench: %v\n", err)
		return exitError
	}
	return exitUsage
}

// newRootCmd puts the commands together.
func (a *app) newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "xdsbench",
		Short: "Load an xDS server with simulated clients, and compare what it costs",
		Long: "xdsbench plays the parts around an xDS server, each as a process of its own, and\n" +
			"measures what the server costs against references on the same machine.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		// Called without a command.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		a.newRunCmd(),
		a.newCompareCmd(),
		a.newScenariosCmd(),
		a.newOriginCmd(),
		a.newFleetCmd(),
		a.newFloorCmd(),
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
