package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// newDumpCmd shows the resources of a key.
func (a *app) newDumpCmd() *cobra.Command {
	var typ, on string
	cmd := &cobra.Command{
		Use:   "dump KEY",
		Short: "Show the resources of a key, without secrets",
		Long: "Show the resources of an aggregation key on the node that owns it, by type and name.\n" +
			"Secrets and fields that may contain secrets are redacted: the output is for reading, and\n" +
			"not valid as an upstream directory. It does not contain resources of types that clients\n" +
			"never share, nor resources of single clients.",
		Example: "  xdsrelay dump shop/eu --type CDS\n" +
			"  xdsrelay dump shop/eu -o table\n" +
			"  xdsrelay dump shop/eu -o json | jq -r '.resources[].name'",
		Args: one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asYAML)
	cmd.Flags().StringVar(&typ, "type", "", typeUsage)
	cmd.Flags().StringVar(&on, "node", "", nodeUsage)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(out.check(), checkType(typ)); err != nil {
			return err
		}
		query := url.Values{"key": args}
		for name, text := range map[string]string{"type": typ, "node": on} {
			if text != "" {
				query.Set(name, text)
			}
		}
		return a.dump(cmd.Context(), node, out, query)
	})
	return cmd
}

// dump writes JSON and YAML page by page, since there may be many resources.
func (a *app) dump(ctx context.Context, node *remote, out *output, query url.Values) error {
	var all []ops.Dumped // without the resources themselves
	n := 0
	for {
		var page ops.Dump
		if _, err := node.get(ctx, "/api/v1/dump", query, &page); err != nil {
			return err
		}
		if n == 0 && out.isData() {
			if err := dumpHead(a.stdout, out, &page); err != nil {
				return err
			}
		}
		for _, r := range page.Resources {
			n++
			if !out.isData() {
				r.Resource = nil
				all = append(all, r)
			} else if err := dumpOne(a.stdout, out, r, n == 1); err != nil {
				return err
			}
		}
		if page.Next == "" {
			silentLines(a.stderr, page.Silent)
			break
		}
		query.Set("page", page.Next)
	}
	switch {
	case out.form == asJSON:
		fmt.Fprint(a.stdout, "\n]}\n")
		return nil
	case out.isData():
		return nil
	}
	return out.print(a.stdout, view{
		names: namesOf(all, func(r *ops.Dumped) string { return ops.ShortName(r.URL) + "/" + r.Name }),
		table: func(w io.Writer, wide bool) { dumpTable(w, all, wide, time.Now()) },
	})
}

func dumpTable(w io.Writer, all []ops.Dumped, wide bool, now time.Time) {
	rows := [][]string{{"TYPE", "NAME", "VERSION", "BYTES", "CHANGED", "NOTES"}}
	for _, r := range all {
		notes, version := r.State, r.Version
		if r.Problem != "" {
			notes += ": " + r.Problem
		}
		if !wide {
			version = shortVersion(version)
		}
		rows = append(rows, []string{ops.ShortName(r.URL), r.Name, version, fmt.Sprint(r.Bytes), ago(now, r.Changed), notes})
	}
	columns(w, rows)
}

// dumpHead writes what comes before the resources.
func dumpHead(w io.Writer, out *output, d *ops.Dump) error {
	key, err := json.Marshal(d.Key)
	if err != nil {
		return err
	}
	node, err := json.Marshal(d.Node)
	if err != nil {
		return err
	}
	if out.form == asJSON {
		_, err = fmt.Fprintf(w, "{\"key\":%s,\"node\":%s, \"resources\": [", printableJSON(key), printableJSON(node))
		return err
	}
	for i, text := range [][]byte{key, node} {
		text, err := toYAML(text)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s: %s", []string{"key", "node"}[i], text); err != nil {
			return err
		}
	}
	empty := ""
	if len(d.Resources) == 0 {
		empty = " []"
	}
	_, err = fmt.Fprintf(w, "resources:%s\n", empty)
	return err
}

// dumpOne writes one resource as an element of a list.
func dumpOne(w io.Writer, out *output, r ops.Dumped, first bool) error {
	text, err := json.MarshalIndent(r, "  ", "  ")
	if err != nil {
		return err
	}
	if out.form == asJSON {
		comma := ",\n  "
		if first {
			comma = "\n  "
		}
		_, err = fmt.Fprintf(w, "%s%s", comma, printableJSON(text))
		return err
	}
	if text, err = json.Marshal(r); err != nil {
		return err
	}
	return elementYAML(w, text)
}

// elementYAML writes JSON as an element of a YAML list.
func elementYAML(w io.Writer, text []byte) error {
	element, err := toYAML(slices.Concat([]byte("["), text, []byte("]")))
	if err != nil {
		return err
	}
	if element[0] == '[' { // it is JSON still, see toYAML
		element = slices.Concat([]byte("- "), printableJSON(text), []byte("\n"))
	}
	_, err = w.Write(element)
	return err
}
