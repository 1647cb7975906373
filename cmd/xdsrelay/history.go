package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// newHistoryCmd shows what became of a key.
func (a *app) newHistoryCmd() *cobra.Command {
	var typ, on string
	var limit int
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Show the last updates of a key: when, which version, what it changed, from where",
		Long: "Show the last updates of an aggregation key that changed something, type by type and\n" +
			"the newest first, as the node has seen them that owns the key: cache.history says how\n" +
			"many. Digests are equal on all nodes, and each time, for equal content, so going back\n" +
			"shows as the same digest.",
		Example: "  xdsrelay history shop/eu\n" +
			"  xdsrelay history shop/eu --type CDS -n 3 -o json",
		Args: one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable, asWide, asJSON, asYAML)
	cmd.Flags().StringVar(&typ, "type", "", "only this `TYPE`, like CDS")
	cmd.Flags().StringVar(&on, "node", "", "as this `NODE` has seen them, instead of the owner")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "only the newest `N` of each type")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		if err := out.check(); err != nil {
			return err
		}
		if err := checkType(typ); err != nil {
			return err
		}
		if limit < 0 {
			return usageError{fmt.Errorf("--limit: got %d, expected at least 1, or 0 for all", limit)}
		}
		wanted := ops.TypeURL(typ)
		var h ops.History
		if _, err := node.get(cmd.Context(), "/api/v1/history", url.Values{"key": args}, &h); err != nil {
			return err
		}
		seen, err := pickHistory(&h, on)
		if err != nil {
			return err
		}
		seen.Types = slices.DeleteFunc(seen.Types, func(t ops.TypeHistory) bool { return typ != "" && t.URL != wanted })
		for i := range seen.Types {
			if v := seen.Types[i].Versions; limit > 0 && len(v) > limit {
				seen.Types[i].Versions = v[:limit]
			}
		}
		if out.isData() {
			return out.data(a.stdout, seen)
		}
		a.printHistory(seen, out.form == asWide)
		silentLines(a.stderr, h.Silent)
		return nil
	}
	a.completeKeys(cmd, node)
	return cmd
}

// pickHistory is what one node has seen: that which is named, or the owner, or
// another one where the owner has not the key.
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
		var names []string
		for _, n := range h.Nodes {
			names = append(names, n.Node)
		}
		return nil, fmt.Errorf("node %s has not the key, or did not answer; %s", on, strings.Join(names, ", ")+" have it")
	}
	if len(h.Nodes) == 0 {
		return nil, errors.New("no node has the key")
	}
	return &h.Nodes[0], nil
}

func (a *app) printHistory(h *ops.NodeHistory, wide bool) {
	now := time.Now()
	head := []string{"TYPE", "AGE", "TIME", "VERSION", "DIGEST", "ADDED", "CHANGED", "REMOVED", "RESOURCES", "FROM"}
	if wide {
		head = append(head, "SERVER", "GENERATION")
	}
	rows := [][]string{head}
	for _, t := range h.Types {
		for _, p := range t.Versions {
			version, digest, from := p.Version, p.Digest, string(p.Cause)
			if p.Source != "" {
				from += " " + p.Source
			}
			if !wide {
				version, digest = shortVersion(version), shortVersion(digest)
			}
			row := []string{
				t.Name, ago(now, p.At), p.At.Local().Format("2006-01-02 15:04:05.000"), version, digest,
				fmt.Sprintf("+%d", p.Added), fmt.Sprintf("~%d", p.Changed), fmt.Sprintf("-%d", p.Removed), fmt.Sprint(p.Resources), from,
			}
			if wide {
				row = append(row, p.Server, fmt.Sprint(p.Generation))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 1 {
		fmt.Fprintf(a.stdout, "node %s has seen no updates of it, or keeps no history (cache.history)\n", printable(h.Node))
		return
	}
	columns(a.stdout, rows)
	fmt.Fprintf(a.stdout, "\nas node %s has seen it\n", printable(h.Node))
}
