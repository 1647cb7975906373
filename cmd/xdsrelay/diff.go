package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// errDiffers makes diff exit with 1; its output says why.
var errDiffers = errors.New("the client does not have the current resources")

// newDiffCmd compares the resources of a client with the current ones.
func (a *app) newDiffCmd() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "diff CLIENT|A [B] | KEY V1 V2",
		Short: "Compare the resources of a client with the current ones, or two clients, keys or updates",
		Long: "With one CLIENT, compare, for each type, the resources that a client has with those of its node, and the\n" +
			"resources of its node with those of the key's owner. A client has the resources that it\n" +
			"acknowledged (ACK):\n\n" +
			"  =  number of resources that are current\n" +
			"  +  the client does not have the resource\n" +
			"  ~  the client has an older version: the new one was not sent, not acknowledged, or\n" +
			"     rejected (NACK)\n" +
			"  -  the client has a resource that was removed\n\n" +
			"A node keeps only the newest version of each resource. The output therefore shows the\n" +
			"version that the client should have, not the older one that it has.\n\n" +
			"With A and B, compare the resources of two clients; with --keys, those of two aggregation\n" +
			"keys on their owners:\n\n" +
			"  +  only B has the resource\n" +
			"  -  only A has the resource\n" +
			"  ~  the versions or contents differ\n" +
			"  ?  the version that a client has is not known\n\n" +
			"Below the first 20 resources that differ are the fields that differ, without secrets. With\n" +
			"--nodes and one KEY, compare the key on two nodes; with two names, take the first one\n" +
			"from the first node and the second one from the second node.\n\n" +
			"With KEY and two updates, show the fields that differ between them, as 'xdsrelay history\n" +
			"KEY --from V1 --to V2' does.\n\n" +
			"CLIENT is a node ID or its beginning. Two names are names of clients unless --keys is set.",
		Example: "  xdsrelay diff envoy-7\n" +
			"  xdsrelay diff envoy-7 -o json\n" +
			"  xdsrelay diff envoy-7 envoy-8\n" +
			"  xdsrelay diff --keys shop/eu shop/us --type CDS\n" +
			"  xdsrelay diff shop/eu --nodes relay-0,relay-1\n" +
			"  xdsrelay diff shop/eu v41 v42",
		Args: oneToThree("CLIENT, or two clients, or keys with --keys, or a KEY and two updates", clientsHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	addCompare(cmd, &f)
	a.completeNames(cmd, node)
	exitCodes(cmd, "the client has the current resources, or both sides have equal ones", "the resources differ", "the command failed, or the command line is wrong")
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		query, err := f.query(args)
		switch {
		case err != nil:
			return err
		case len(args) == updatesOfKey:
			err = a.diffUpdates(cmd.Context(), node, out, query)
		case query != nil:
			err = a.compare(cmd.Context(), node, out, query)
		default:
			err = a.diff(cmd.Context(), node, out, args[0])
		}
		if err != nil && !errors.Is(err, errDiffers) && !errors.Is(err, errCompared) {
			return usageError{err} // 2 means a failure, as for diff(1)
		} else if err != nil {
			return errQuiet{err}
		}
		return nil
	})
	return cmd
}

// diffUpdates compares two updates of a key.
func (a *app) diffUpdates(ctx context.Context, node *remote, out *output, query url.Values) error {
	changes, err := a.showChanges(ctx, node, out, query)
	if err == nil && len(changes.Types) > 0 {
		return errCompared
	}
	return err
}

func (a *app) diff(ctx context.Context, node *remote, out *output, name string) error {
	var d ops.Diff
	if _, err := node.get(ctx, "/api/v1/diff", url.Values{"client": {name}}, &d); err != nil {
		return err
	}
	if len(d.Diffs) == 0 {
		return noSuchClient(name, d.Found)
	}
	err := out.print(a.stdout, view{
		data:  d,
		names: differing(d.Diffs),
		table: func(w io.Writer, wide bool) {
			now := time.Now()
			for i := range d.Diffs {
				if i > 0 {
					fmt.Fprintln(w)
				}
				printDiff(w, &d.Diffs[i], wide, now)
			}
		},
	})
	if err != nil {
		return err
	}
	if !out.isData() {
		silentLines(a.stderr, d.Silent)
	}
	if slices.ContainsFunc(d.Diffs, func(c ops.ClientDiff) bool { return c.Differs }) {
		return errDiffers
	}
	return nil
}

// differing returns the resources that differ, as TYPE/NAME.
func differing(diffs []ops.ClientDiff) (names []string) {
	for _, d := range diffs {
		for _, t := range d.Types {
			for _, c := range t.Differences {
				names = append(names, t.Name+"/"+c.Name)
			}
		}
	}
	return names
}

// sentWords describe the progress of a change on its way to the client.
var sentWords = map[ops.State]string{
	ops.NotSent: "not sent", ops.Stale: "awaiting ACK", ops.Nacked: "rejected (NACK)",
}

// changeSigns are the signs of diff(1).
var changeSigns = map[string]string{"added": "+", "changed": "~", "removed": "-"}

// printDiff prints the difference of one client; wide means full versions.
func printDiff(w io.Writer, d *ops.ClientDiff, wide bool, now time.Time) {
	fmt.Fprintf(w, "client %s, key %s, node %s, peer %s\n", printable(d.Name), printable(d.Key), printable(d.Node), printable(d.Peer))
	for _, note := range d.Notes {
		fmt.Fprintf(w, "note: %s\n", printable(note))
	}
	for _, t := range d.Types {
		fmt.Fprintf(w, "\n%s %s\n", printable(t.Name), t.State)
		switch {
		case t.Unknown:
			fmt.Fprintln(w, "  ?  the client resumed with resources that the node cannot compare yet")
		case t.Same > 0 || len(t.Differences) == 0:
			fmt.Fprintf(w, "  =  %s\n", count(t.Same, "resource"))
		}
		if len(t.Differences) == 0 {
			continue
		}
		var rows [][]string
		for _, c := range t.Differences {
			change, version := c.Change, c.Version
			if !wide {
				version = shortVersion(version)
			}
			if version != "" {
				change += ": version " + version
			}
			if c.Unsure {
				change += " (the client may have an older version)"
			}
			rows = append(rows, []string{"  " + changeSigns[c.Change], c.Name, change, ago(now, c.Changed) + " ago", sentWords[c.Sent]})
		}
		columns(w, rows)
		if t.Omitted > 0 {
			fmt.Fprintf(w, "  and %d more\n", t.Omitted)
		}
	}
}
