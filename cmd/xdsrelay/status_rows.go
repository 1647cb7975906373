package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// Bounds of what is shown of many clients: how many rows a table has unless --limit says otherwise, and
// how many clients one answer of a node has.
const (
	usualRows = 50
	pageSize  = 2000
	briefSize = 5000
)

// rowFlags say how many clients are shown, and in which order.
type rowFlags struct {
	limit int
	sort  string
	given bool // --limit was
}

// addRows adds the flags to a command.
func addRows(cmd *cobra.Command, f *rowFlags) {
	flags := cmd.Flags()
	flags.IntVar(&f.limit, "limit", usualRows, limitUsage)
	flags.StringVar(&f.sort, "sort", "", "`ORDER` of the clients: name, state (the worst first) or since (the longest out of sync first); the default is state in a table, and name otherwise")
	var orders []string
	for _, s := range ops.Sorts() {
		orders = append(orders, string(s))
	}
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp)) // the flag is defined
}

const limitUsage = "show at most `N` clients, 0 for all; json, yaml and name show all unless it is set"

// check returns an error about the flags.
func (f *rowFlags) check(cmd *cobra.Command) error {
	f.given = cmd.Flags().Changed("limit")
	if err := checkLimit(f.limit); err != nil {
		return err
	}
	if f.sort != "" && !slices.Contains(ops.Sorts(), ops.Sort(f.sort)) {
		return usageError{fmt.Errorf("--sort: got %q, expected name, state or since", f.sort)}
	}
	return nil
}

func checkLimit(limit int) error {
	if limit < 0 {
		return usageError{fmt.Errorf("--limit: got %d, expected at least 1, or 0 for all", limit)}
	}
	return nil
}

// checkStates checks the value of a flag with states of clients.
func checkStates(flag, text string) error {
	if _, err := ops.ParseStates(text); text != "" && err != nil {
		return usageError{fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), "state: "))}
	}
	return nil
}

// queryOf has the parameters that are not empty.
func queryOf(all map[string]string) url.Values {
	v := url.Values{}
	for name, text := range all {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// most is how many clients are shown in a form; 0 for all.
func (f *rowFlags) most(out *output) int {
	if !out.isTable() && !f.given {
		return 0
	}
	return f.limit
}

// clientPage is [ops.Page] with clients in another form.
type clientPage[T any] struct {
	Clients []T          `json:"clients"`
	Next    string       `json:"next,omitempty"`
	Silent  []ops.Silent `json:"silent"`
	Summary *ops.Summary `json:"summary,omitempty"`
}

// eachPage calls f with the pages of clients of a query until there are limit clients; 0 for all.
func eachPage[T any](ctx context.Context, r *remote, query url.Values, size, limit int, f func(*clientPage[T]) error) error {
	for n := 0; ; {
		most := size
		if limit > 0 {
			most = min(size, limit-n)
		}
		query.Set("limit", strconv.Itoa(most))
		var page clientPage[T]
		if _, err := r.get(ctx, "/api/v1/clients", query, &page); err != nil {
			return err
		}
		n += len(page.Clients)
		if err := f(&page); err != nil || page.Next == "" || limit > 0 && n >= limit {
			return err
		}
		query.Set("page", page.Next)
	}
}

// clients returns the clients of a query with their numbers, at most limit of them; 0 for all. Where a
// node would have to look at all clients for each page, they are put in order here.
func (r *remote) clients(ctx context.Context, query url.Values, by ops.Sort, limit int) (ops.Page, error) {
	if limit > 0 && limit <= pageSize {
		query.Set("sort", string(by))
		query.Set("limit", strconv.Itoa(limit))
		var page ops.Page
		_, err := r.get(ctx, "/api/v1/clients", query, &page)
		return page, err
	}
	all := ops.Page{}
	err := eachPage(ctx, r, query, pageSize, 0, func(page *clientPage[ops.Client]) error {
		all.Clients, all.Silent = append(all.Clients, page.Clients...), page.Silent
		return nil
	})
	if err != nil {
		return all, err
	}
	sum := ops.SumClients(all.Clients, all.Silent)
	all.Summary = &sum
	ops.SortClients(all.Clients, by)
	if limit > 0 && len(all.Clients) > limit {
		all.Clients = all.Clients[:limit]
	}
	return all, nil
}

// printClients prints the numbers of the clients, and then the clients.
func printClients(w io.Writer, page ops.Page, wide bool, f statusFlags, now time.Time) {
	if len(page.Clients) == 0 {
		if f.query().Encode() == "" {
			fmt.Fprintln(w, "no clients: none is connected, or none has sent its Node yet")
		} else {
			fmt.Fprintln(w, errNobodyIs)
		}
		return
	}
	all := page.Summary
	if all == nil { // it is there with each first page of a sorted query
		sum := ops.SumClients(page.Clients, page.Silent)
		all = &sum
	}
	fmt.Fprintf(w, "%s%s%s\n", count(all.Clients, "client"), statesLine(all.States), missingText(all.Missing))
	reasonLines(w, all.Rejections, now)
	fmt.Fprintln(w)
	clientTable(w, page.Clients, wide, now)
	if more := all.Clients - len(page.Clients); more > 0 {
		fmt.Fprintf(w, "\n%d of %s are shown, %s; --limit 0 shows all, and --state, --key, --type and --node select\n", len(page.Clients), count(all.Clients, "client"), orderWords[f.order()])
	}
}

var orderWords = map[ops.Sort]string{
	ops.ByName: "the first by name", ops.ByState: "those in the worst state", ops.BySince: "those that are out of sync longest",
}

// order is that of a table.
func (f *rowFlags) order() ops.Sort {
	if f.sort == "" {
		return ops.ByState
	}
	return ops.Sort(f.sort)
}

// reasonLines write the reasons of NACKs with the number of clients and keys.
func reasonLines(w io.Writer, all []ops.Rejection, now time.Time) {
	for i := range all {
		r := &all[i]
		who := fmt.Sprintf("client %s of key %s", r.Client, r.Key)
		if r.Clients > 1 {
			keys := count(r.Keys, "key")
			if r.MoreKeys {
				keys = "at least " + keys
			}
			who = fmt.Sprintf("%s of %s, such as %s", count(r.Clients, "client"), keys, who)
		}
		of := r.Name
		if r.Version != "" {
			of += " " + shortVersion(r.Version)
		}
		fmt.Fprintf(w, "%s rejected (NACK) by %s, for %s: %s\n", printable(of), printable(who), ago(now, r.Since), printable(r.Message))
	}
}

// clientNames prints the names of clients, page by page and each once.
func clientNames(ctx context.Context, w io.Writer, node *remote, f *statusFlags, limit int) (silent []ops.Silent, err error) {
	query, seen := f.sortedQuery(), map[string]bool{}
	query.Set("brief", "true")
	err = eachPage(ctx, node, query, briefSize, limit, func(page *clientPage[ops.Client]) error {
		var b strings.Builder
		for i := range page.Clients {
			name := page.Clients[i].Name
			if seen[name] {
				continue
			}
			seen[name] = true
			b.WriteString(printable(name) + "\n")
		}
		silent = page.Silent
		_, err := io.WriteString(w, b.String())
		return err
	})
	return silent, err
}

// sortedQuery is the query with the order that --sort names.
func (f *statusFlags) sortedQuery() url.Values {
	query := f.query()
	if f.sort != "" {
		query.Set("sort", f.sort)
	}
	return query
}

// clientData writes clients as JSON or YAML, page by page, since there may be many. A client is not
// decoded: it has all fields that the node reports.
func clientData(ctx context.Context, w io.Writer, node *remote, out *output, f *statusFlags, limit int) error {
	rest, n := clientPage[int]{Clients: []int{}}, 0
	err := eachPage(ctx, node, f.sortedQuery(), pageSize, limit, func(page *clientPage[json.RawMessage]) error {
		var b bytes.Buffer
		for _, c := range page.Clients {
			if err := clientElement(&b, out, c, n == 0); err != nil {
				return err
			}
			n++
		}
		rest.Next, rest.Silent = page.Next, page.Silent
		if page.Summary != nil {
			rest.Summary = page.Summary
		}
		_, err := b.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	return clientRest(w, out, rest, n == 0)
}

// clientElement writes an element of the list with which the data begins.
func clientElement(b *bytes.Buffer, out *output, client json.RawMessage, first bool) error {
	switch {
	case out.form == asJSON && first:
		b.WriteString("{\n  \"clients\": [\n    ")
	case out.form == asJSON:
		b.WriteString(",\n    ")
	case first:
		b.WriteString("clients:\n")
	}
	if out.form == asJSON {
		if bytes.HasPrefix(client, []byte("{\n      \"")) { // indented by the node as it is here
			b.Write(client)
			return nil
		}
		return json.Indent(b, client, "    ", "  ")
	}
	return elementYAML(b, client)
}

// clientRest writes what follows the list.
func clientRest(w io.Writer, out *output, rest clientPage[int], empty bool) error {
	text, err := json.MarshalIndent(rest, "", "  ")
	if err != nil {
		return err
	}
	if text = printableJSON(text); !empty {
		text = bytes.TrimPrefix(text, []byte("{\n  \"clients\": [],\n"))
	}
	switch {
	case out.form == asJSON && empty:
		_, err = fmt.Fprintf(w, "%s\n", text)
	case out.form == asJSON:
		_, err = fmt.Fprintf(w, "\n  ],\n%s\n", text)
	default:
		if !empty {
			text = append([]byte("{\n"), text...)
		}
		if text, err = toYAML(text); err == nil {
			_, err = w.Write(text)
		}
	}
	return err
}
