package main

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// newReloadCmd makes a node reload its configuration.
func (a *app) newReloadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a node reload its configuration",
		Long: "Make a node reload its configuration and show the result. SIGHUP does the same, and a\n" +
			"node reloads the file by itself when the file changes. Streams stay open. If the\n" +
			"configuration has an error, nothing changes, and the command shows the error.",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	exitCodes(cmd, "the node has reloaded the configuration", "the node has rejected the configuration, or does not answer", usuallyWrong)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var s ops.Settings
		raw, code, err := node.call(cmd.Context(), http.MethodPost, "/config/reload", nil, nil, &s)
		if err != nil {
			return err
		}
		if code != http.StatusOK && out.isTable() {
			var b strings.Builder
			admin.WriteSettings(&b, s)
			return errors.New(strings.TrimSpace(b.String()))
		}
		err = out.print(a.stdout, view{data: raw, names: []string{s.File}, table: func(w io.Writer, _ bool) { admin.WriteSettings(w, s) }})
		if err == nil && code != http.StatusOK {
			err = errors.New("the node has rejected the configuration")
		}
		return err
	})
	return cmd
}
