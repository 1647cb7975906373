package main

import (
	"context"
	"encoding/json"
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
		Long: "Show the resources of an aggregation key as the node has them that owns it, by type\n" +
			"and name. Secrets, and what may be some, are hidden: what is shown is for reading,\n" +
			"and cannot be served again as a directory of resources. Resources that must not be\n" +
			"shared, and those of single clients, are not among them.",
		Example: "  xdsrelay dump shop/eu --type CDS\n" +
			"  xdsrelay dump shop/eu -o table\n" +
			"  xdsrelay dump shop/eu -o json | jq -r '.resources[].name'",
		Args: one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asYAML, asJSON, asTable)
	cmd.Flags().StringVar(&typ, "type", "", "only this `TYPE`, like CDS")
	cmd.Flags().StringVar(&on, "node", "", "as this `NODE` has them, instead of the owner")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		if err := out.check(); err != nil {
			return err
		}
		if err := checkType(typ); err != nil {
			return err
		}
		query := url.Values{"key": args}
		for name, text := range map[string]string{"type": typ, "node": on} {
			if text != "" {
				query.Set(name, text)
			}
		}
		return a.dump(cmd.Context(), node, out, query)
	}
	a.completeKeys(cmd, node)
	return cmd
}

// dump writes part by part what the node gives: there may be much.
func (a *app) dump(ctx context.Context, node *remote, out *output, query url.Values) error {
	table := [][]string{{"TYPE", "NAME", "VERSION", "BYTES", "CHANGED", "NOTES"}}
	now, n := time.Now(), 0
	for {
		var part ops.Dump
		if _, err := node.get(ctx, "/api/v1/dump", query, &part); err != nil {
			return err
		}
		if n == 0 && out.isData() {
			if err := dumpHead(a.stdout, out, &part); err != nil {
				return err
			}
		}
		for _, r := range part.Resources {
			n++
			if !out.isData() {
				notes := r.Standing
				if r.Problem != "" {
					notes += ": " + r.Problem
				}
				table = append(table, []string{ops.ShortName(r.URL), r.Name, shortVersion(r.Version), fmt.Sprint(r.Bytes), ago(now, r.Changed), notes})
				continue
			}
			if err := dumpOne(a.stdout, out, r, n == 1); err != nil {
				return err
			}
		}
		if part.Next == "" {
			silentLines(a.stderr, part.Silent)
			break
		}
		query.Set("page", part.Next)
	}
	switch out.form {
	case asJSON:
		fmt.Fprint(a.stdout, "\n]}\n")
	case asTable:
		columns(a.stdout, table)
	}
	return nil
}

// dumpHead writes what stands before the resources.
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
	element, err := toYAML(slices.Concat([]byte("["), text, []byte("]")))
	if err != nil {
		return err
	}
	if element[0] == '[' { // it could not be spelled out
		element = slices.Concat([]byte("- "), printableJSON(text), []byte("\n"))
	}
	_, err = w.Write(element)
	return err
}
