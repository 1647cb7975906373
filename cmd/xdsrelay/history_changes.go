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

// compared are the flags that select what is compared.
type compared struct{ show, from, to string }

func (c *compared) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.show, "show", "", "show the fields that `UPDATE` changed")
	f.StringVar(&c.from, "from", "", "show the fields that differ from those after `UPDATE`; 0 is the state before the first update")
	f.StringVar(&c.to, "to", "", "with --from, up to `UPDATE`; default: the present state")
	cmd.MarkFlagsMutuallyExclusive("show", "from")
	cmd.MarkFlagsMutuallyExclusive("show", "to")
	for _, name := range []string{"show", "from", "to"} {
		cmd.MarkFlagsMutuallyExclusive(name, "limit")
	}
}

func (c *compared) set() bool { return c.show+c.from+c.to != "" }

// query returns the query of a key.
func (c *compared) query(key []string, on, typ string) (url.Values, error) {
	if c.to != "" && c.from == "" {
		return nil, usageError{errors.New("--to needs --from")}
	}
	return url.Values{"key": key, "node": {on}, "type": {typ}, "update": {c.show}, "from": {c.from}, "to": {c.to}}, nil
}

// showChanges prints what an update changed, or how two differ.
func (a *app) showChanges(ctx context.Context, node *remote, out *output, query url.Values) (*ops.Changes, error) {
	for name := range query {
		if query.Get(name) == "" {
			query.Del(name)
		}
	}
	var changes ops.Changes
	if _, err := node.get(ctx, "/api/v1/history/changes", query, &changes); err != nil {
		return nil, err
	}
	if err := out.print(a.stdout, view{data: changes, names: changedResources(&changes), table: func(w io.Writer, _ bool) { printChanges(w, &changes) }}); err != nil || out.isData() {
		return &changes, err
	}
	silentLines(a.stderr, changes.Silent)
	return &changes, nil
}

// changedResources returns the resources as TYPE/NAME.
func changedResources(c *ops.Changes) (names []string) {
	for _, t := range c.Types {
		for _, r := range t.Resources {
			names = append(names, t.Name+"/"+r.Name)
		}
	}
	return names
}

func printChanges(w io.Writer, c *ops.Changes) {
	for i, t := range c.Types {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s %s\n", printable(t.Name), spanWords(&t))
		if t.Forgotten {
			fmt.Fprintln(w, "  note: the history no longer has all of these updates; changes may be missing")
		}
		for _, r := range t.Resources {
			fmt.Fprintf(w, "  %s %s\n", changeSigns[r.Change], printable(r.Name))
			printFields(w, "      ", &r.Diff)
		}
		if t.Omitted > 0 {
			fmt.Fprintf(w, "  and %d more\n", t.Omitted)
		}
	}
	if len(c.Types) == 0 {
		fmt.Fprintln(w, "no differences")
	}
	fmt.Fprintf(w, "\nseen by node %s\n", printable(c.Node))
}

func spanWords(t *ops.TypeChanges) string {
	switch t.To {
	case 0:
		return fmt.Sprintf("after update %d", t.From)
	case t.From + 1:
		return fmt.Sprintf("update %d", t.To)
	}
	return fmt.Sprintf("updates %d to %d", t.From+1, t.To)
}

// keptWords say whether the previous contents are in memory.
var keptWords = map[bool]string{true: "kept", false: "-"}

// namesInTable bounds the names of an update in a table that is not wide.
const namesInTable = 3

// changedNames lists the first names of an update.
func changedNames(p *ops.Past, wide bool) string {
	var names []string
	for _, of := range []struct {
		sign  string
		names []string
	}{{"+", p.AddedNames}, {"~", p.ChangedNames}, {"-", p.RemovedNames}} {
		for _, n := range of.names {
			names = append(names, of.sign+n)
		}
	}
	if !wide && len(names) > namesInTable {
		names = names[:namesInTable]
	}
	text := strings.Join(names, " ")
	if more := p.Added + p.Changed + p.Removed - len(names); more > 0 && text != "" {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
