package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// errCompared makes a comparison exit with 1; its output says why.
var errCompared = errors.New("the two sides differ")

// compareFlags say what the arguments of diff are.
type compareFlags struct {
	keys       bool
	nodes, typ string
}

func addCompare(cmd *cobra.Command, f *compareFlags) {
	cmd.Flags().BoolVar(&f.keys, "keys", false, "the arguments are aggregation keys, not clients")
	cmd.Flags().StringVar(&f.nodes, "nodes", "", "compare what two `NODES`, separated by a comma, have")
	cmd.Flags().StringVar(&f.typ, "type", "", typeUsage)
}

// updatesOfKey is the number of arguments that name a key and two of its updates.
const updatesOfKey = 3

// query returns the query of a comparison; nil if the arguments ask for the differences of one client from
// its node.
func (f *compareFlags) query(args []string) (url.Values, error) {
	if len(args) == updatesOfKey {
		if f.keys || f.nodes != "" {
			return nil, usageError{errors.New("--keys and --nodes compare clients or keys, not two updates of a key")}
		}
		return url.Values{"key": args[:1], "from": args[1:2], "to": args[2:], "type": {f.typ}}, checkType(f.typ)
	}
	if len(args) == 1 && !f.keys && f.nodes == "" {
		if f.typ != "" {
			return nil, usageError{errors.New("--type needs two clients, keys or updates, or --nodes")}
		}
		return nil, nil
	}
	v := url.Values{"kind": {"client"}, "a": {args[0]}, "b": {args[len(args)-1]}}
	if f.keys || len(args) == 1 {
		v.Set("kind", "key")
	}
	if f.typ != "" {
		v.Set("type", f.typ)
	}
	switch a, b, two := strings.Cut(f.nodes, ","); {
	case f.nodes == "" && args[0] == args[len(args)-1]:
		return nil, usageError{errors.New("expected two names, or one with --nodes A,B")}
	case f.nodes != "" && (!two || a == "" || b == "" || strings.Contains(b, ",")):
		return nil, usageError{fmt.Errorf("--nodes: got %q, expected two nodes, separated by a comma", f.nodes)}
	case two:
		v.Set("node_a", a)
		v.Set("node_b", b)
	}
	return v, checkType(f.typ)
}

// compare compares two clients or keys.
func (a *app) compare(ctx context.Context, node *remote, out *output, query url.Values) error {
	var c ops.Comparison
	if _, err := node.get(ctx, "/api/v1/compare", query, &c); err != nil {
		return err
	}
	var names []string
	for _, d := range c.Differences {
		names = append(names, d.Type+"/"+d.Name)
	}
	if err := out.print(a.stdout, view{
		data: c, names: names,
		table: func(w io.Writer, wide bool) { printComparison(w, &c, wide) },
	}); err != nil {
		return err
	}
	if !out.isData() {
		silentLines(a.stderr, c.Silent)
	}
	if c.Differs {
		return errCompared
	}
	return nil
}

// comparedSigns are the signs of the differences of B from A.
var comparedSigns = map[string]string{"added": "+", "changed": "~", "removed": "-", "unknown": "?"}

func printComparison(w io.Writer, c *ops.Comparison, wide bool) {
	for _, s := range []struct {
		name string
		side ops.Side
	}{{"A", c.A}, {"B", c.B}} {
		fmt.Fprintf(w, "%s: %s %s", s.name, s.side.Kind, printable(s.side.Name))
		if s.side.Kind == ops.ClientSide {
			fmt.Fprintf(w, ", key %s, peer %s", printable(s.side.Key), printable(s.side.Peer))
		}
		fmt.Fprintf(w, ", node %s\n", printable(s.side.Node))
	}
	fmt.Fprintln(w)
	if len(c.Types) == 0 {
		fmt.Fprintln(w, "neither has resources")
		return
	}
	rows := [][]string{{"TYPE", "RESOURCES IN A", "RESOURCES IN B", "EQUAL", "DIFFERENT", "ONLY IN A", "ONLY IN B", "UNKNOWN"}}
	for _, t := range c.Types {
		row := []string{t.Type}
		for _, n := range []int{t.A, t.B, t.Same, t.Changed, t.OnlyA, t.OnlyB, t.Unknown} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	columns(w, rows)
	last := ""
	for _, d := range c.Differences {
		if d.URL != last {
			fmt.Fprintf(w, "\n%s\n", printable(d.Type))
			last = d.URL
		}
		fmt.Fprintf(w, "  %s %s%s\n", comparedSigns[d.Change], printable(d.Name), versionsText(&d, wide))
		if d.Fields != nil {
			printFields(w, "      ", d.Fields)
		}
	}
	if c.Omitted > 0 {
		fmt.Fprintf(w, "and %d more\n", c.Omitted)
	}
}

// versionsText says which versions the sides have.
func versionsText(d *ops.Compared, wide bool) string {
	text := func(h *ops.Held) string {
		switch {
		case h == nil:
			return "none"
		case h.Version == "":
			return string(h.Has) + " version"
		case wide:
			return "version " + h.Version + " (digest " + h.Digest + ")"
		}
		return "version " + shortVersion(h.Version)
	}
	switch d.Change {
	case "added":
		return ": only in B, " + printable(text(d.B))
	case "removed":
		return ": only in A, " + printable(text(d.A))
	}
	a, b := text(d.A), text(d.B)
	if a == b {
		return ": " + printable(a) + ", other content"
	}
	return ": " + printable(a) + " in A, " + printable(b) + " in B"
}
