package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/admin"
)

// output is the flag --output of a command that prints data.
type output struct{ form string }

// The forms of output.
const (
	asTable, asWide = "table", "wide"
	asJSON, asYAML  = "json", "yaml"
	asName          = "name"
)

// forms are all of them.
var forms = []string{asTable, asWide, asJSON, asYAML, asName}

// view is what a command prints, in each form.
type view struct {
	data  any                          // as JSON and YAML
	names []string                     // as names, one per line
	table func(w io.Writer, wide bool) // for people
}

// addOutput adds the flag to a command.
func addOutput(cmd *cobra.Command, usual string) *output {
	o := &output{}
	cmd.Flags().StringVarP(&o.form, "output", "o", usual, "output `FORM`: "+strings.Join(forms[:len(forms)-1], ", ")+" or "+forms[len(forms)-1])
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)) // the flag is defined
	return o
}

// check returns an error about the flag.
func (o *output) check() error {
	if !slices.Contains(forms, o.form) {
		return usageError{fmt.Errorf("--output: got %q, expected one of %s", o.form, strings.Join(forms, ", "))}
	}
	return nil
}

// isData reports whether the output is JSON or YAML.
func (o *output) isData() bool { return o.form == asJSON || o.form == asYAML }

// isTable reports whether the output is for people.
func (o *output) isTable() bool { return o.form == asTable || o.form == asWide }

// print writes a view.
func (o *output) print(w io.Writer, v view) error {
	switch {
	case o.isData():
		return o.data(w, v.data)
	case o.form == asName:
		for _, name := range v.names {
			fmt.Fprintln(w, printable(name))
		}
	default:
		v.table(w, o.form == asWide)
	}
	return nil
}

// data writes v as JSON or YAML.
func (o *output) data(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o.form == asYAML {
		text, err = toYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(printableJSON(text)), "\n"))
	return err
}

// text is the table of a view that is a text.
func text(s string) func(io.Writer, bool) {
	return func(w io.Writer, _ bool) { fmt.Fprint(w, printableLines(s)) }
}

// namesOf returns a name of each element, in order and without repetitions.
func namesOf[T any](all []T, name func(*T) string) (names []string) {
	seen := make(map[string]bool, len(all))
	for i := range all {
		if n := name(&all[i]); !seen[n] {
			seen[n], names = true, append(names, n)
		}
	}
	return names
}

// columns writes rows as aligned columns, the first row being the header.
func columns(w io.Writer, rows [][]string) { admin.WriteTable(w, rows) }

// ago returns how long ago a time was, in at most two units.
func ago(now, then time.Time) string { return admin.Ago(now, then) }

// longVersion is the length up to which a table shows a version in full.
const longVersion = 16

// shortVersion cuts a long version, such as a digest.
func shortVersion(v string) string {
	if len(v) <= longVersion {
		return v
	}
	return strings.ToValidUTF8(v[:longVersion-4], "") + "…"
}

// count is a number of things: "1 client", "12 clients".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
