package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// awaitVersion waits until the clients have a version of the control plane.
func (a *app) awaitVersion(ctx context.Context, node *remote, f statusFlags) error {
	deadline := time.Now().Add(f.timeout)
	noted := false
	for {
		query := f.query()
		query.Set("version", f.version)
		var v ops.Arrival
		if _, err := node.get(ctx, "/api/v1/version", query, &v); err != nil {
			return err
		}
		switch {
		case v.State == ops.VersionReached:
			fmt.Fprintf(a.stderr, "all of %s (%s) have version %s or a newer one\n", count(v.Clients, "client"), count(v.Keys, "key"), printable(v.Version))
			return nil
		case v.State == ops.VersionUnknown && !noted:
			fmt.Fprintf(a.stderr, "no update with version %s has arrived; waiting\n", printable(v.Version))
			noted = true
		}
		if !time.Now().Before(deadline) {
			printArrival(a.stdout, &v)
			silentLines(a.stderr, v.Silent)
			return fmt.Errorf("timeout after %s: %w", f.timeout, arrivalError(&v))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

// arrivalError says what is missing.
func arrivalError(v *ops.Arrival) error {
	switch behind := v.Clients - v.Reached; {
	case v.State == ops.VersionUnknown:
		return fmt.Errorf("no update with version %s has arrived, or at least 16 newer ones of its type have", printable(v.Version))
	case behind > 0:
		return fmt.Errorf("%s of %d did not acknowledge version %s", count(behind, "client"), v.Clients, printable(v.Version))
	case v.KeysWithout > 0:
		return fmt.Errorf("%s with clients had no update with version %s", count(v.KeysWithout, "key"), printable(v.Version))
	case len(v.Nodes) > 0:
		return fmt.Errorf("version %s has not reached all nodes", printable(v.Version))
	case len(v.Silent) > 0:
		return errSilent
	}
	return errNobodyIs
}

// printArrival prints what is missing.
func printArrival(w io.Writer, v *ops.Arrival) {
	if v.State == ops.VersionUnknown {
		return
	}
	rows := [][]string{{"TYPE", "CLIENTS", "ACKED", "REJECTED"}}
	for _, t := range v.Types {
		rows = append(rows, []string{t.Name, fmt.Sprint(t.Clients), fmt.Sprint(t.Reached), fmt.Sprint(t.Nacked)})
	}
	if len(rows) > 1 {
		columns(w, rows)
	}
	if len(v.Behind) > 0 {
		fmt.Fprint(w, "\nclients without it:\n")
		rows = [][]string{{"CLIENT", "KEY", "NODE", "TYPE", "STATE", "WAITING"}}
		for _, c := range v.Behind {
			rows = append(rows, []string{c.Name, c.Key, c.Node, c.Type, string(c.State), c.Waiting})
		}
		columns(w, rows)
	}
	for _, n := range v.Nodes {
		fmt.Fprintf(w, "node %s does not have it for key %s: %s\n", printable(n.Node), printable(n.Key), printable(n.Why))
	}
	for _, key := range v.Without {
		fmt.Fprintf(w, "key %s had no update with it\n", printable(key))
	}
	if more := v.KeysWithout - len(v.Without); more > 0 {
		fmt.Fprintf(w, "and %d more keys\n", more)
	}
}

var errVersionNeedsWait = errors.New("--version needs --wait")

// checkVersion refuses an empty version, as of a script whose variable is not set: without a version,
// --wait is over as soon as clients are in sync with the former one.
func checkVersion(cmd *cobra.Command, version string) error {
	if version == "" && cmd.Flags().Changed("version") {
		return usageError{errors.New("--version: is empty, expected a version of the control plane")}
	}
	return nil
}
