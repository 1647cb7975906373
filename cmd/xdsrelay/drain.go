package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
)

// newDrainCmd drains a node.
func (a *app) newDrainCmd() *cobra.Command {
	var (
		wait    bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain a node: hand over its keys, shed its clients, and exit",
		Long: "Drain a node, as SIGTERM does: the node leaves its tier, hands over its keys to other\n" +
			"nodes, closes the streams of its clients over the drain time, and exits. With --wait,\n" +
			"the command returns when the node has exited, also if it was draining already.",
		Example: "  xdsrelay drain\n" +
			"  xdsrelay drain --wait --timeout 10m",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.Flags().BoolVar(&wait, "wait", false, waitUsage+" node has exited")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, timeoutUsage)
	exitCodes(cmd, "the node is draining, or with --wait has exited", "the node does not drain, or with --wait has not exited in time", usuallyWrong)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(out.check(), checkTimeout(timeout)); err != nil {
			return err
		}
		var d admin.Draining
		raw, code, err := node.call(cmd.Context(), http.MethodPost, "/drain", nil, nil, &d)
		switch {
		case wait && code == http.StatusConflict: // it is draining already
		case err != nil:
			return err
		default:
			if err := out.print(a.stdout, view{data: raw, names: []string{d.Node}, table: text(d.String())}); err != nil {
				return err
			}
		}
		if !wait {
			return nil
		}
		if err := node.awaitExit(cmd.Context(), timeout); err != nil {
			return err
		}
		if out.isTable() {
			fmt.Fprintln(a.stdout, "the node has exited")
		}
		return nil
	})
	return cmd
}

// awaitExit waits until a draining node has exited: its port is closed, or belongs to a new process.
func (r *remote) awaitExit(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		code, _, err := r.ask(ctx, http.MethodGet, "/readyz", nil, nil, false)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNobody) && !errors.Is(err, context.DeadlineExceeded):
			return nil
		case err == nil && code == http.StatusOK: // a draining node is not ready
			return nil
		case !time.Now().Before(deadline):
			return fmt.Errorf("the node has not exited after %s; it is still draining", timeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}
