package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// newTopCmd shows the activity of a tier.
func (a *app) newTopCmd() *cobra.Command {
	var once bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the activity of a tier: nodes, busiest keys, and clients out of sync",
		Long: "Show the activity of a tier: its clients, keys and nodes, and the reasons of NACKs, those\n" +
			"with problems first. On a terminal, the command is interactive: arrow keys select a row,\n" +
			"enter shows the clients of a key, of a node or of the reason of a NACK, or all details of\n" +
			"a client; esc returns; / filters, s and r change the order, and q quits.\n\n" +
			"If the input or the output is not a terminal, the command prints nodes, keys and the\n" +
			"clients that are not in sync, and appends each update to the output until it is\n" +
			"interrupted (Ctrl-C).",
		Example: "  xdsrelay top\n" +
			"  xdsrelay top --once",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print the activity of one interval and exit")
	cmd.Flags().DurationVar(&every, "interval", 2*time.Second, intervalUsage)
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(out.check(), checkInterval(every)); err != nil {
			return err
		}
		if screen := a.screen(); screen != nil && a.keyboard() && out.isTable() && !once {
			return a.interactiveTop(cmd.Context(), node, every, screen)
		}
		return a.top(cmd.Context(), node, out, every, once)
	})
	return cmd
}

// snapshot is the state that top shows.
type snapshot struct {
	At      time.Time      `json:"at"`
	Nodes   admin.NodesNow `json:"nodes"`
	Summary ops.Summary    `json:"summary"`
	Keys    []keyActivity  `json:"keys"`
	Late    []ops.Client   `json:"out_of_sync"`
}

// mostLate limits the list of clients that are not in sync.
const mostLate = "50"

// look takes a snapshot. Rates of keys are those since last, which may be nil.
func (r *remote) look(ctx context.Context, last *snapshot) (*snapshot, error) {
	p := &snapshot{At: time.Now()}
	var page ops.Page
	var keys ops.Keys
	for _, one := range []struct {
		path  string
		query url.Values
		into  any
	}{
		{"/tier/nodes", nil, &p.Nodes},
		{"/api/v1/summary", nil, &p.Summary},
		{"/api/v1/keys", nil, &keys},
		{"/api/v1/clients", url.Values{"state": {"nacked,stale,unknown,missing"}, "limit": {mostLate}}, &page},
	} {
		if _, err := r.get(ctx, one.path, one.query, one.into); err != nil {
			return nil, err
		}
	}
	p.Late, p.Keys = page.Clients, activity(last, p.At, keys.Keys)
	return p, nil
}

func (a *app) top(ctx context.Context, node *remote, out *output, every time.Duration, once bool) error {
	last, err := node.look(ctx, nil)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(every): // rates need an interval
	}
	show := func(ctx context.Context, w, _ io.Writer) error {
		now, err := node.look(ctx, last)
		if err != nil {
			return err
		}
		last = now
		return out.print(w, view{
			data:  now,
			names: namesOf(now.Keys, func(k *keyActivity) string { return k.Key.Key }),
			table: func(w io.Writer, wide bool) { drawTop(w, now, wide) },
		})
	}
	if once {
		return show(ctx, a.stdout, nil)
	}
	return a.watchOutput(ctx, out, every, show)
}

// drawTop writes a snapshot as tables.
func drawTop(w io.Writer, now *snapshot, wide bool) {
	s := now.Summary
	fmt.Fprintf(w, "%s on %s, %s%s\n", count(s.Clients, "client"), count(len(s.Nodes), "node"), count(len(now.Keys), "key"), statesLine(s.States)+missingText(s.Missing))
	silentLines(w, s.Silent)
	warningLines(w, now.Nodes.Warnings, now.At)
	fmt.Fprintln(w)
	columns(w, nodeRows(now))
	if len(now.Keys) > 0 {
		fmt.Fprintln(w)
		columns(w, keyRows(now.Keys, wide))
	}
	if len(now.Late) > 0 {
		fmt.Fprintln(w)
		clientTable(w, now.Late, wide, now.At)
		reasonLines(w, s.Rejections, now.At)
	}
}
