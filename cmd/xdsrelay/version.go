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

// build says how the program was built.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	GRPC     string `json:"grpc"`
}

// newVersionCmd prints the version and how the program was built.
func (a *app) newVersionCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, commit, Go version and grpc-go version",
		Args:  cobra.NoArgs,
	}
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		b := build{version, commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, grpc.Version}
		return out.print(a.stdout, view{
			data: b, names: []string{b.Version},
			table: text(fmt.Sprintf("xdsrelay %s\ncommit   %s\ngo       %s %s\ngrpc     %s\n", b.Version, b.Commit, b.Go, b.Platform, b.GRPC)),
		})
	})
	return cmd
}

// commit is the revision that the program was built from, if the build recorded it.
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
