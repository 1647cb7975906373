package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// whoFlags select clients.
type whoFlags struct {
	typ, key, state string
	limit           int
}

// newWhoCmd shows who has a resource.
func (a *app) newWhoCmd() *cobra.Command {
	var f whoFlags
	cmd := &cobra.Command{
		Use:   "who RESOURCE",
		Short: "Show which keys serve a resource, and which clients have it",
		Long: "Show for a resource, on all nodes of a tier: its versions with the number of keys and\n" +
			"clients, the keys that serve it, and the clients that subscribe to it, by name, glob or\n" +
			"wildcard. In RESOURCE, * matches any text; at most 50 resources are shown.\n\n" +
			"  SYNCED    the client has acknowledged (ACK) the current version\n" +
			"  STALE     the current version is awaiting ACK\n" +
			"  NACKED    the client has rejected the response with the current version\n" +
			"  NOT_SENT  the current version was not sent to the client yet\n" +
			"  UNKNOWN   the client resumed with resources that the node cannot compare yet\n" +
			"  MISSING   the resource does not exist for the client's key\n\n" +
			"STANDING is the result of the last response of the control plane for a key: ACCEPTED,\n" +
			"REJECTED or ERROR; without a resource it is REQUESTED, UNREACHABLE or ABSENT.\n\n" +
			"HAS is what the client has: the current version, an older one, none, or unknown. REASON\n" +
			"is the reason of the NACK, or why the client does not have the current version. ACKED is\n" +
			"the version of the newest update of the type that the client has acknowledged. A digest\n" +
			"is equal for equal content on all nodes and keys. Contents are not shown; see 'xdsrelay\n" +
			"dump'.",
		Example: "  xdsrelay who payments\n" +
			"  xdsrelay who 'shop-*' --type EDS\n" +
			"  xdsrelay who payments --type CDS --state nacked,stale -o name",
		Args: one("RESOURCE", "'xdsrelay dump KEY -o name' lists the resources of a key"),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	flags := cmd.Flags()
	flags.StringVar(&f.typ, "type", "", typeUsage)
	flags.StringVar(&f.key, "key", "", "select by the aggregation `KEY`")
	flags.StringVar(&f.state, "state", "", "only clients for which the resource is in one of these `STATES`, separated by commas; missing selects clients of keys that do not have it")
	flags.IntVar(&f.limit, "limit", usualRows, limitUsage)
	a.completeFlags(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(out.check(), checkType(f.typ), f.check()); err != nil {
			return err
		}
		if !out.isTable() && !cmd.Flags().Changed("limit") {
			f.limit = 0
		}
		return a.who(cmd.Context(), node, out, args[0], &f)
	})
	return cmd
}

func (f *whoFlags) check() error {
	return errors.Join(checkLimit(f.limit), checkStates("--state", f.state))
}

func (a *app) who(ctx context.Context, node *remote, out *output, resource string, f *whoFlags) error {
	query := queryOf(map[string]string{"resource": resource, "type": f.typ, "key": f.key, "state": f.state})
	all, err := whoPages(ctx, node, query, f.limit)
	if err != nil {
		return err
	}
	if len(all.Resources) == 0 {
		return noSuchResource(resource, f, all)
	}
	if err := out.print(a.stdout, view{
		data:  all,
		names: namesOf(all.Clients, func(c *ops.WhoClient) string { return c.Name }),
		table: func(w io.Writer, wide bool) { printWho(w, all, wide, f, time.Now()) },
	}); err != nil || out.isData() {
		return err
	}
	silentLines(a.stderr, all.Silent)
	return nil
}

// whoPages returns the answer with at most limit clients; 0 for all.
func whoPages(ctx context.Context, node *remote, query url.Values, limit int) (*ops.Who, error) {
	var all *ops.Who
	for {
		most := pageSize
		if limit > 0 && all == nil {
			most = min(most, limit)
		} else if limit > 0 {
			most = min(most, limit-len(all.Clients))
		}
		query.Set("limit", strconv.Itoa(most))
		var page ops.Who
		code, err := node.get(ctx, "/api/v1/resource", query, &page)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = &page
		} else {
			all.Clients, all.Next, all.Silent = append(all.Clients, page.Clients...), page.Next, page.Silent
		}
		if code != http.StatusOK || page.Next == "" || limit > 0 && len(all.Clients) >= limit {
			return all, nil
		}
		query.Set("page", page.Next)
	}
}

// noSuchResource suggests resources if no key has one.
func noSuchResource(name string, f *whoFlags, all *ops.Who) error {
	var b strings.Builder
	fmt.Fprintf(&b, "no key serves a resource %q, and no client subscribes to it", name)
	if f.typ != "" {
		fmt.Fprintf(&b, ", of type %s", f.typ)
	}
	if f.key != "" {
		fmt.Fprintf(&b, ", in key %q", f.key)
	}
	if len(all.Similar) > 0 {
		b.WriteString("; did you mean:")
		for _, n := range all.Similar {
			fmt.Fprintf(&b, "\n  %s", printable(n))
		}
	} else {
		b.WriteString("; 'xdsrelay dump KEY -o name' lists the resources of a key")
	}
	for _, s := range all.Silent {
		fmt.Fprintf(&b, "\nnode %s, which did not answer, may have it: %s", printable(s.Node), printable(s.Error))
	}
	return errors.New(b.String())
}

// printWho prints the numbers, the keys and the clients.
func printWho(w io.Writer, all *ops.Who, wide bool, f *whoFlags, now time.Time) {
	selected := 0
	for i := range all.Resources {
		selected += all.Resources[i].Selected
	}
	switch n := len(all.Resources); {
	case n == 1:
		r := &all.Resources[0]
		fmt.Fprintf(w, "%s %s: %s%s\n", printable(r.Type), printable(r.Name), count(clientsIn(r.States), "client"), whoStates(r.States))
	case all.MoreResources:
		fmt.Fprintf(w, "the first %d of the resources that match: narrow the name, or use --type or --key\n", n)
	default:
		fmt.Fprintf(w, "%s\n", count(n, "resource"))
	}
	fmt.Fprintln(w)
	columns(w, versionRows(all, wide))
	fmt.Fprintln(w)
	columns(w, copyRows(all, wide, f.limit, now))
	if more := len(all.Copies) + all.OmittedCopies - shown(len(all.Copies), f.limit); more > 0 {
		fmt.Fprintf(w, "and %d more: --key selects one\n", more)
	}
	fmt.Fprintln(w)
	if len(all.Clients) == 0 {
		fmt.Fprintln(w, errNobodyIs)
		return
	}
	columns(w, whoRows(all, wide, now))
	if more := selected - len(all.Clients); more > 0 {
		fmt.Fprintf(w, "\n%d of %d are shown, those in the worst state; --limit 0 shows all, and --state and --key select\n", len(all.Clients), selected)
	}
}

func clientsIn(states ops.Count) (n int) {
	for _, k := range states {
		n += k
	}
	return n
}

func shown(n, limit int) int {
	if limit == 0 {
		return n
	}
	return min(n, limit)
}

// whoOrder is the order of the columns with numbers of clients.
var whoOrder = []ops.State{ops.Synced, ops.Stale, ops.Nacked, ops.NotSent, ops.Unknown, ops.MissingResource}

// whoStates is ": 3 SYNCED, 1 STALE", or nothing.
func whoStates(states ops.Count) string {
	text := statesLine(states)
	if n := states[ops.MissingResource]; n > 0 {
		if text == "" {
			return fmt.Sprintf(": %d MISSING", n)
		}
		text += fmt.Sprintf(", %d MISSING", n)
	}
	return text
}

// nameColumns are the columns that name a resource where there are several.
func nameColumns(all *ops.Who, typ, name string) []string {
	if len(all.Resources) < 2 {
		return nil
	}
	return []string{typ, name}
}

func versionRows(all *ops.Who, wide bool) [][]string {
	head := append(nameColumns(all, "TYPE", "RESOURCE"), "VERSION", "DIGEST", "KEYS")
	for _, s := range whoOrder {
		head = append(head, string(s))
	}
	rows := [][]string{head}
	for i := range all.Resources {
		r := &all.Resources[i]
		for _, v := range r.Versions {
			version, digest, keys := v.Version, v.Digest, strconv.Itoa(v.Keys)
			if v.MoreKeys {
				keys += "+"
			}
			if !wide {
				version, digest = shortVersion(version), shortVersion(digest)
			}
			row := append(nameColumns(all, r.Type, r.Name), version, digest, keys)
			for _, s := range whoOrder {
				row = append(row, strconv.Itoa(v.States[s]))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func copyRows(all *ops.Who, wide bool, limit int, now time.Time) [][]string {
	head := append(nameColumns(all, "TYPE", "RESOURCE"), "KEY", "OWNER", "NODE", "VERSION", "SINCE", "STANDING", "CLIENTS")
	if wide {
		head = append(head, "DIGEST", "BYTES")
	}
	rows := [][]string{append(head, "NOTES")}
	for _, c := range all.Copies[:shown(len(all.Copies), limit)] {
		version := c.Version
		if !wide {
			version = shortVersion(version)
		}
		row := append(nameColumns(all, c.Type, c.Name), c.Key, c.Owner, c.Node, version, ago(now, c.Changed), c.Standing, strings.TrimPrefix(whoStates(c.States), ": "))
		if wide {
			row = append(row, c.Digest, strconv.Itoa(c.Bytes))
		}
		rows = append(rows, append(row, c.Problem))
	}
	return rows
}

func whoRows(all *ops.Who, wide bool, now time.Time) [][]string {
	head := append(nameColumns(all, "TYPE", "RESOURCE"), "CLIENT", "KEY", "NODE", "STATE", "SINCE", "SUBSCRIBED BY", "HAS", "ACKED")
	if wide {
		head = append(head, "PEER", "NACK CODE")
	}
	rows := [][]string{append(head, "REASON")}
	for i := range all.Clients {
		c := &all.Clients[i]
		acked, has := c.AckedVersion, string(c.Has)
		if !wide {
			acked = shortVersion(acked)
		}
		if c.Removed {
			has += " (removed)"
		}
		row := append(nameColumns(all, c.Type, c.Resource), c.Name, c.Key, c.Node, string(c.State), ago(now, c.Since), string(c.Interest), has, acked)
		reason, code := c.Waiting, ""
		if c.Nack != nil {
			reason, code = "rejected (NACK): "+c.Nack.Message, strconv.Itoa(int(c.Nack.Code))
		}
		if c.Private {
			reason = strings.TrimPrefix(reason+"; private", "; ")
		}
		if wide {
			row = append(row, c.Peer, code)
		}
		rows = append(rows, append(row, reason))
	}
	return rows
}
