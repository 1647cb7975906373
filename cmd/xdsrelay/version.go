package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
)

// version is set by the linker.
var version = "dev"

// newVersionCmd says what this program is made of.
func (a *app) newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: a.action(func(*cobra.Command) error {
			_, err := fmt.Fprintf(a.stdout, "xdsrelay %s\ncommit   %s\ngo       %s %s/%s\ngrpc     %s\n",
				version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, grpc.Version)
			return err
		}),
	}
}

// commit is the revision that the program was built from, as far as the Go tool
// has noted it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " (modified)"
		}
	}
	return revision + modified
}
