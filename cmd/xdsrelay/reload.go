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

// newReconnectCmd makes a node retry its control planes.
func (a *app) newReconnectCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reconnect",
		Short: "Make a node retry its control planes now",
		Long: "Make a node retry its control planes now. While a control plane is unreachable, the\n" +
			"backoff between attempts grows up to backoff.max of the upstream; this command ends the\n" +
			"current backoff and resets it. Working streams stay open. The command is about one\n" +
			"node: run it for each node of a tier. 'xdsrelay status' and /debug/upstreams on the admin\n" +
			"port show when the next attempt is due.",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var r admin.Reconnecting
		raw, _, err := node.call(cmd.Context(), http.MethodPost, "/reconnect", nil, nil, &r)
		if err != nil {
			return err
		}
		return out.print(a.stdout, view{data: raw, names: []string{r.Node}, table: text(r.String())})
	})
	return cmd
}
