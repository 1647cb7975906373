package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// errDiffers makes diff end with exit code 1, without a word.
var errDiffers = errors.New("the client does not hold what there is")

// newDiffCmd compares what a client holds with what there is.
func (a *app) newDiffCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff CLIENT",
		Short: "Show what a client holds against what the origin serves now",
		Long: "Compare, type by type, what a client holds with what its node has from the origin,\n" +
			"and that with what the node has which owns the client's key. What a client holds is\n" +
			"what it has acknowledged:\n\n" +
			"  =  it holds this many resources as they are now\n" +
			"  +  it does not hold the resource\n" +
			"  ~  it holds an older version, or what it was sent and has rejected\n" +
			"  -  it holds a resource that was removed\n\n" +
			"A node keeps only the newest of each resource. So the version is told that the\n" +
			"client should have, and not which older one it has.\n\n" +
			"CLIENT is a node id or the beginning of one. The exit code is 0 if the client holds\n" +
			"what there is, 1 if not, and 2 if that could not be found out.",
		Example: "  xdsrelay diff envoy-7\n" +
			"  xdsrelay diff envoy-7 -o json",
		Args: one("CLIENT", clientsHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable, asJSON, asYAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		if err := out.check(); err != nil {
			return err
		}
		if err := a.diff(cmd.Context(), node, out, args[0]); err != nil && !errors.Is(err, errDiffers) {
			return usageError{err} // as diff(1) says trouble
		} else if err != nil {
			return errQuiet{err}
		}
		return nil
	}
	a.completeNames(cmd, node)
	return cmd
}

// errQuiet is an error of which nothing is to be said: the output has.
type errQuiet struct{ error }

func (a *app) diff(ctx context.Context, node *remote, out *output, name string) error {
	var d ops.Diff
	if _, err := node.get(ctx, "/api/v1/diff", url.Values{"client": {name}}, &d); err != nil {
		return err
	}
	if len(d.Diffs) == 0 {
		if err := nobodyCalled(name, d.Found); err != nil {
			return err
		}
	}
	differs := false
	for i := range d.Diffs {
		differs = differs || d.Diffs[i].Differs
	}
	if out.isData() {
		if err := out.data(a.stdout, d); err != nil {
			return err
		}
	} else {
		now := time.Now()
		for i := range d.Diffs {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			printDiff(a.stdout, &d.Diffs[i], now)
		}
		silentLines(a.stderr, d.Silent)
	}
	if differs {
		return errDiffers
	}
	return nil
}

// sentWords say what became of a change on its way to the client.
var sentWords = map[ops.State]string{
	ops.NotSent: "not sent yet", ops.Stale: "sent, not answered", ops.Nacked: "sent, rejected",
}

// changeSigns are those of diff.
var changeSigns = map[string]string{"added": "+", "changed": "~", "removed": "-"}

func printDiff(w io.Writer, d *ops.ClientDiff, now time.Time) {
	fmt.Fprintf(w, "%s (key %s) on node %s, from %s\n", printable(d.Name), printable(d.Key), printable(d.Node), printable(d.Peer))
	for _, note := range d.Notes {
		fmt.Fprintf(w, "note: %s\n", printable(note))
	}
	for _, t := range d.Types {
		fmt.Fprintf(w, "\n%s %s\n", printable(t.Name), t.State)
		switch {
		case t.Unknown:
			fmt.Fprintln(w, "  ?  it came with something from before that cannot be compared yet")
		case t.Same > 0 || len(t.Differences) == 0:
			fmt.Fprintf(w, "  =  %s\n", count(t.Same, "resource"))
		}
		if len(t.Differences) == 0 {
			continue
		}
		var rows [][]string
		for _, c := range t.Differences {
			what := c.Change
			if c.Version != "" {
				what += " to " + shortVersion(c.Version)
			}
			if c.Unsure {
				what += " (what it holds of it is not known)"
			}
			rows = append(rows, []string{"  " + changeSigns[c.Change], c.Name, what, ago(now, c.Changed) + " ago", sentWords[c.Sent]})
		}
		columns(w, rows)
		if t.Omitted > 0 {
			fmt.Fprintf(w, "  and %d more\n", t.Omitted)
		}
	}
}
