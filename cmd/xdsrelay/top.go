package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// newTopCmd watches a tier.
func (a *app) newTopCmd() *cobra.Command {
	var once bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the keys and clients of a running tier",
		Long: "Watch a tier: how its clients stand, which keys are updated most, and which clients\n" +
			"have not what they should have. It goes on until it is interrupted (Ctrl-C); where\n" +
			"the output is no terminal, one picture follows the other.",
		Example: "  xdsrelay top\n" +
			"  xdsrelay top --once",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print one picture, of one interval, and end")
	cmd.Flags().DurationVar(&every, "interval", 2*time.Second, "the time between two pictures")
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		if err := checkInterval(every); err != nil {
			return err
		}
		return a.top(cmd.Context(), node, every, once)
	})
	return cmd
}

// picture is what top shows, as of a time.
type picture struct {
	at      time.Time
	members admin.NodesNow
	summary ops.Summary
	keys    ops.Keys
	late    []ops.Client
}

// mostLate is how many clients are listed that have not what they should have.
const mostLate = "50"

// look takes a picture.
func (r *remote) look(ctx context.Context) (p picture, err error) {
	p.at = time.Now()
	var page ops.Page
	for _, one := range []struct {
		path  string
		query url.Values
		into  any
	}{
		{"/tier/members", nil, &p.members},
		{"/api/v1/summary", nil, &p.summary},
		{"/api/v1/keys", nil, &p.keys},
		{"/api/v1/clients", url.Values{"state": {"nacked,stale,unknown,missing"}, "limit": {mostLate}}, &page},
	} {
		if _, err = r.get(ctx, one.path, one.query, one.into); err != nil {
			return p, err
		}
	}
	p.late = page.Clients
	return p, nil
}

func (a *app) top(ctx context.Context, node *remote, every time.Duration, once bool) error {
	last, err := node.look(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(every): // rates are those of an interval
	}
	draw := func(ctx context.Context, w io.Writer) error {
		now, err := node.look(ctx)
		if err != nil {
			return err
		}
		drawTop(w, last, now)
		last = now
		return nil
	}
	if once {
		return draw(ctx, a.stdout)
	}
	return a.watch(ctx, a.screen(), every, draw)
}

// drawTop writes a picture; rates are those since the last one.
func drawTop(w io.Writer, last, now picture) {
	s := now.summary
	fmt.Fprintf(w, "%s  %s on %s, %s%s\n", now.at.Format(time.TimeOnly), count(s.Clients, "client"), count(len(s.Nodes), "node"), count(len(now.keys.Keys), "key"), statesLine(s.States)+missingText(s.Missing))
	silentLines(w, s.Silent)
	warningLines(w, now.members.Warnings, now.at)
	fmt.Fprintln(w)
	columns(w, nodeRows(now))
	if len(now.keys.Keys) > 0 {
		fmt.Fprintln(w)
		columns(w, keyRows(last, now))
	}
	if len(now.late) > 0 {
		fmt.Fprintln(w)
		clientTable(w, now.late, false, now.at)
		rejections(w, now.late, now.at)
	}
}
