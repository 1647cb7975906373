package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// newHistoryCmd shows the updates of a key.
func (a *app) newHistoryCmd() *cobra.Command {
	var typ, on string
	var limit int
	var which compared
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Show the last updates of a key, and what they changed",
		Long: "Show the last updates of an aggregation key that changed something: number, version,\n" +
			"changed resources with the first names, and source. The list is by type, newest first, as\n" +
			"seen by the owner of the key; cache.history sets its length. Each node counts updates for\n" +
			"itself. VERSION is the version that the control plane gave to the update, or, if it gave\n" +
			"none, the one that SotW clients get. Equal content has the same digest on all nodes and at\n" +
			"all times, so a rollback shows an earlier digest.\n\n" +
			"With --show, show which fields an update changed. With --from and --to, show how two\n" +
			"updates differ. An update is a number from the list, or a version, digest, or its first 8\n" +
			"or more characters; a version selects its update of each type. With --show, 'last' is the\n" +
			"newest update. Secrets are never shown: a secret that differs is named by its path. Fields\n" +
			"need the previous contents, which a node keeps within limits.max_history_size, and never\n" +
			"for secrets (SDS).",
		Example: "  xdsrelay history shop/eu\n" +
			"  xdsrelay history shop/eu --type CDS -n 3 -o json\n" +
			"  xdsrelay history shop/eu --show 12\n" +
			"  xdsrelay history shop/eu --from v41 --to v42",
		Args: one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.Flags().StringVar(&typ, "type", "", typeUsage)
	cmd.Flags().StringVar(&on, "node", "", nodeUsage)
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "only the newest `N` updates of each type; 0 means all")
	which.add(cmd)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(out.check(), checkType(typ)); err != nil {
			return err
		}
		if limit < 0 {
			return usageError{fmt.Errorf("--limit: got %d, expected at least 1, or 0 for all", limit)}
		}
		if which.set() {
			query, err := which.query(args, on, typ)
			if err == nil {
				_, err = a.showChanges(cmd.Context(), node, out, query)
			}
			return err
		}
		var h ops.History
		if _, err := node.get(cmd.Context(), "/api/v1/history", url.Values{"key": args}, &h); err != nil {
			return err
		}
		seen, err := pickHistory(&h, on)
		if err != nil {
			return err
		}
		seen.Types = slices.DeleteFunc(seen.Types, func(t ops.TypeHistory) bool { return typ != "" && t.URL != ops.TypeURL(typ) })
		for i := range seen.Types {
			if v := seen.Types[i].Versions; limit > 0 && len(v) > limit {
				seen.Types[i].Versions = v[:limit]
			}
		}
		if err := out.print(a.stdout, view{
			data:  seen,
			names: versionsOf(seen),
			table: func(w io.Writer, wide bool) { printHistory(w, seen, wide, time.Now()) },
		}); err != nil || out.isData() {
			return err
		}
		silentLines(a.stderr, h.Silent)
		return nil
	})
	return cmd
}

// versionsOf returns the versions as TYPE/VERSION.
func versionsOf(h *ops.NodeHistory) (names []string) {
	for _, t := range h.Types {
		for _, p := range t.Versions {
			names = append(names, t.Name+"/"+p.Version)
		}
	}
	return names
}

// pickHistory returns what one node has seen: the node on, or else the owner, or else any node.
func pickHistory(h *ops.History, on string) (*ops.NodeHistory, error) {
	wanted := on
	if wanted == "" {
		wanted = h.Owner
	}
	for i := range h.Nodes {
		if h.Nodes[i].Node == wanted {
			return &h.Nodes[i], nil
		}
	}
	if on != "" {
		names := namesOf(h.Nodes, func(n *ops.NodeHistory) string { return n.Node })
		return nil, fmt.Errorf("node %q does not have the key, or did not answer; nodes with the key: %s", on, strings.Join(names, ", "))
	}
	if len(h.Nodes) == 0 {
		return nil, errors.New("no node has the key")
	}
	return &h.Nodes[0], nil
}

// sources say in a table where an update came from.
var sources = map[string]string{
	"upstream": "upstream", "owner": "owner", "restored": "last known good",
	"expired": "TTL expired", "kept": "kept for references", "released": "removals approved",
	"unfrozen": "unfrozen", "undone": "undone",
}

func printHistory(w io.Writer, h *ops.NodeHistory, wide bool, now time.Time) {
	header := []string{"UPDATE", "TYPE", "AGE", "VERSION", "DIGEST", "ADDED", "CHANGED", "REMOVED", "RESOURCES", "SOURCE", "NAMES"}
	if wide {
		header = append(header, "TIME", "SENT VERSION", "SERVER", "GENERATION", "CONTENTS")
	}
	rows := [][]string{header}
	for _, t := range h.Types {
		for _, p := range t.Versions {
			version, digest, from := cmp.Or(p.ControlPlaneVersion, p.Version), p.Digest, sources[string(p.Cause)]
			if p.Source != "" {
				from += " " + p.Source
			}
			if !wide {
				version, digest = shortVersion(version), shortVersion(digest)
			}
			row := []string{
				fmt.Sprint(p.Number), t.Name, ago(now, p.At), version, digest,
				fmt.Sprintf("+%d", p.Added), fmt.Sprintf("~%d", p.Changed), fmt.Sprintf("-%d", p.Removed), fmt.Sprint(p.Resources), from, changedNames(&p, wide),
			}
			if wide {
				row = append(row, p.At.Local().Format("2006-01-02 15:04:05.000"), p.Version, p.Server, fmt.Sprint(p.Generation), keptWords[p.Contents])
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 1 {
		fmt.Fprintf(w, "no updates on node %s, or its history is disabled (cache.history)\n", printable(h.Node))
		return
	}
	columns(w, rows)
	fmt.Fprintf(w, "\nseen by node %s\n", printable(h.Node))
}
