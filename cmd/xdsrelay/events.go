package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// keyUsage describes the flag of commands that select by a key.
const keyUsage = "select by the aggregation `KEY`"

// eventFlags are the flags of the command events.
type eventFlags struct {
	kinds  []string
	key    string
	since  time.Duration
	limit  int
	follow bool
}

// newEventsCmd shows what happened in a tier.
func (a *app) newEventsCmd() *cobra.Command {
	var f eventFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened in a tier: nodes, control planes, configurations, owners, Redis",
		Long: "Show the last events of all nodes of a tier, newest last. Events are about nodes that\n" +
			"joined, left or disappeared, control planes and Redis, configurations, keys that moved to\n" +
			"another owner, removals held back, certificates, and warnings. A fact that several nodes\n" +
			"recorded is one event, with the names of these nodes. docs/reference/events.md lists the\n" +
			"kinds, and how many events a node keeps. An event about more keys than it lists matches\n" +
			"every --key.\n\n" +
			"With --follow, the command prints further events until it is interrupted (Ctrl-C). If the\n" +
			"node at the admin address does not answer, it reports that and retries.",
		Example: "  xdsrelay events\n" +
			"  xdsrelay events --follow --since 10m\n" +
			"  xdsrelay events --kind node,config.rejected -o json\n" +
			"  xdsrelay events --key shop/eu",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these `KINDS`, or those that begin with one up to a dot; separated by commas")
	flags.StringVar(&f.key, "key", "", keyUsage)
	flags.DurationVar(&f.since, "since", 0, "only events of the last `DURATION`; 0 means all")
	flags.IntVar(&f.limit, "tail", 100, "only the newest `N` events, at most 1000")
	flags.BoolVarP(&f.follow, "follow", "f", false, "print further events until interrupted")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(eventKinds(), cobra.ShellCompDirectiveNoFileComp)) // the flag is defined
	a.completeFlags(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(out.check(), f.check()); err != nil {
			return err
		}
		if f.follow {
			return a.followEvents(cmd.Context(), node, out, f.query(time.Now()))
		}
		found, err := node.events(cmd.Context(), f.query(time.Now()))
		if err != nil {
			return err
		}
		if err := out.print(a.stdout, view{
			data: found, names: namesOf(found.Events, eventName),
			table: func(w io.Writer, wide bool) { printEvents(w, found.Events, wide) },
		}); err != nil || out.isData() {
			return err
		}
		eventNotes(a.stderr, &found)
		silentLines(a.stderr, found.Silent)
		return nil
	})
	return cmd
}

// eventKinds are all kinds, and their beginnings.
func eventKinds() (all []string) {
	for _, kind := range ops.EventKinds() {
		first, _, _ := strings.Cut(kind, ".")
		all = append(all, first, kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (f *eventFlags) check() error {
	switch {
	case f.limit < 1 || f.limit > 1000:
		return usageError{fmt.Errorf("--tail: got %d, expected a number from 1 to 1000", f.limit)}
	case f.since < 0:
		return usageError{fmt.Errorf("--since: got %s, expected a positive duration, or 0 for all", f.since)}
	}
	if err := ops.CheckEventKinds(f.kinds); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	return nil
}

func (f *eventFlags) query(now time.Time) ops.EventQuery {
	q := ops.EventQuery{Kinds: f.kinds, Key: f.key, Limit: f.limit}
	if f.since > 0 {
		q.Since = now.Add(-f.since)
	}
	return q
}

// events requests the events of the tier.
func (r *remote) events(ctx context.Context, q ops.EventQuery) (found ops.Events, err error) {
	_, err = r.get(ctx, "/api/v1/events", q.Values(), &found)
	return found, err
}

// followPause is the time between two requests for further events.
const followPause = time.Second

// followEvents prints events until ctx ends. An error of the first request ends it; later, it says
// that no node answers, and goes on when one does.
func (a *app) followEvents(ctx context.Context, node *remote, out *output, q ops.EventQuery) error {
	found, err := node.events(ctx, q)
	if err != nil {
		return err
	}
	var silent []string // that were reported
	failed := time.Time{}
	for ctx.Err() == nil {
		switch {
		case err == nil:
			if !failed.IsZero() {
				fmt.Fprintf(a.stderr, "%s answers again after %s\n", node.found.Admin, ago(time.Now(), failed))
				failed = time.Time{}
			}
			if err := a.printNext(out, found.Events); err != nil {
				return err
			}
			eventNotes(a.stderr, &found)
			silent = noteSilent(a.stderr, silent, found.Silent)
			q = q.Behind(found.After)
		case failed.IsZero():
			failed = time.Now()
			fmt.Fprintf(a.stderr, "%s; retrying; the events of that node are lost if it has exited; the other nodes keep theirs (use --admin with the address of one)\n", printable(firstLine(err)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
			found, err = node.events(ctx, q)
		}
	}
	return nil
}

// printNext prints further events: rows without a header, or a document for each.
func (a *app) printNext(out *output, all []ops.Event) error {
	for i := range all {
		if out.form == asYAML {
			fmt.Fprintln(a.stdout, "---")
		}
		if err := out.print(a.stdout, view{
			data: all[i], names: []string{eventName(&all[i])},
			table: func(w io.Writer, wide bool) { fmt.Fprintln(w, eventLine(&all[i], wide)) },
		}); err != nil {
			return err
		}
	}
	return nil
}

// noteSilent reports which nodes do not answer, or do so again.
func noteSilent(w io.Writer, before []string, now []ops.Silent) (names []string) {
	for _, s := range now {
		names = append(names, s.Node)
		if !slices.Contains(before, s.Node) {
			fmt.Fprintf(w, "node %s does not answer: %s; its events are missing until it does\n", printable(s.Node), printable(s.Error))
		}
	}
	for _, name := range before {
		if !slices.Contains(names, name) {
			fmt.Fprintf(w, "node %s answers again, or left the tier\n", printable(name))
		}
	}
	return names
}

// eventNotes says which events are missing.
func eventNotes(w io.Writer, found *ops.Events) {
	for _, l := range found.Lost {
		fmt.Fprintf(w, "node %s no longer keeps %s that happened in the meantime\n", printable(l.Node), count(int(min(l.Count, 1<<31-1)), "event"))
	}
	for _, o := range found.Omitted {
		fmt.Fprintf(w, "node %s had too many events of kind %s in a minute and did not record the last %d\n", printable(o.Node), printable(string(o.Kind)), o.Count)
	}
}

// eventName identifies an event: the node that recorded it and its number there.
func eventName(e *ops.Event) string { return e.Node + "/" + strconv.FormatUint(e.Seq, 10) }

func printEvents(w io.Writer, all []ops.Event, wide bool) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no events match")
		return
	}
	header := []string{"TIME", "SEVERITY", "KIND", "NODES", "EVENT"}
	if wide {
		header = append(header, "ATTRIBUTES")
	}
	rows := [][]string{header}
	for i := range all {
		rows = append(rows, eventRow(&all[i], wide))
	}
	columns(w, rows)
}

func eventRow(e *ops.Event, wide bool) []string {
	text := e.Text
	if e.Omitted > 0 {
		text += fmt.Sprintf(" (%s of this kind before it not recorded)", count(e.Omitted, "event"))
	}
	row := []string{e.Time.Local().Format("2006-01-02 15:04:05"), string(e.Severity), string(e.Kind), strings.Join(e.Nodes, ","), text}
	if wide {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
			all = append(all, name+"="+strconv.Quote(e.Attributes[name]))
		}
		if len(e.Keys) > 1 {
			all = append(all, "key_names="+strconv.Quote(strings.Join(e.Keys, " ")))
		}
		row = append(row, strings.Join(all, " "))
	}
	return row
}

// eventLine is a row of the table whose other rows are not known yet.
func eventLine(e *ops.Event, wide bool) string {
	row := eventRow(e, wide)
	for i := range row {
		row[i] = printable(row[i])
	}
	row[3] = cmp.Or(row[3], "-")
	line := fmt.Sprintf("%s  %-7s  %-22s  %-8s  %s", row[0], row[1], row[2], row[3], row[4])
	if wide {
		line += "  " + row[5]
	}
	return line
}
