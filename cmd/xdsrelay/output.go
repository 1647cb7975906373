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

// output is the form in which a command prints what it has found out.
type output struct {
	form  string
	forms []string
}

// The forms.
const (
	asTable, asWide = "table", "wide"
	asJSON, asYAML  = "json", "yaml"
)

// addOutput adds the flag to a command that knows these forms, the first of which is
// the usual one.
func addOutput(cmd *cobra.Command, forms ...string) *output {
	o := &output{forms: forms}
	cmd.Flags().StringVarP(&o.form, "output", "o", forms[0], "the `FORM` of the output: "+strings.Join(forms, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return o
}

// check is an error about the form.
func (o *output) check() error {
	if !slices.Contains(o.forms, o.form) {
		return usageError{fmt.Errorf("--output: got %q, expected one of %s", o.form, strings.Join(o.forms, ", "))}
	}
	return nil
}

// isData reports whether the output is for programs.
func (o *output) isData() bool { return o.form == asJSON || o.form == asYAML }

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

// columns writes rows as the admin port writes its own.
func columns(w io.Writer, rows [][]string) { admin.WriteTable(w, rows) }

// ago is how long ago a time was, in two units at most.
func ago(now, then time.Time) string {
	return admin.Ago(now, then)
}

// longVersion is the longest version that a table shows in full.
const longVersion = 16

// shortVersion cuts a version that is long, as digests are.
func shortVersion(v string) string {
	if len(v) <= longVersion {
		return v
	}
	return strings.ToValidUTF8(v[:longVersion-4], "") + "…"
}

// count counts things in words for a sum: "1 client", "12 clients".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
