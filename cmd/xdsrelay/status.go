package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// statusFlags say of whom the status is asked, and what it should be.
type statusFlags struct {
	key, node, state, typ string
	resources             bool
	failOn                string
	wait                  bool
	timeout               time.Duration
	watch                 bool
	interval              time.Duration
}

// newStatusCmd shows who runs which version.
func (a *app) newStatusCmd() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [CLIENT]",
		Short: "Show which version each client of a running tier has, since when, and who rejected it",
		Long: "Show how each client of a tier stands with each type that it asks for, whichever\n" +
			"node it is connected with and whichever is asked:\n\n" +
			"  SYNCED    it has acknowledged the newest there is for it\n" +
			"  STALE     it has not been told the newest, or has not acknowledged it\n" +
			"  NACKED    it has rejected the newest; what it acknowledged before is in use\n" +
			"  NOT_SENT  there was nothing to tell it yet\n" +
			"  UNKNOWN   it came with something from before that cannot be compared yet, or its\n" +
			"            node did not answer\n" +
			"  -         it does not ask for the type\n\n" +
			"MISSING counts the names that a client asks for and that have no resource: the\n" +
			"control plane has none, or has not answered yet. A client may be SYNCED with a type\n" +
			"of which a resource is missing; with CLIENT, the names are listed. missing stands for\n" +
			"such clients in --state and --fail-on, too.\n\n" +
			"SINCE is when the worst of these became so, VERSION what the client was sent last.\n" +
			"Below the table are the reasons of rejections, each with the number of its clients\n" +
			"and keys, and the nodes that do not answer.\n\n" +
			"With CLIENT, a node id or the beginning of one, show all that is known of that\n" +
			"client.\n\n" +
			"Clients that poll (REST, the variant rest) acknowledge a version by coming back with\n" +
			"it. One that comes back without it is STALE: it rejects it, which such clients mostly\n" +
			"do not say, or it did not get it; with CLIENT, how often it was told is shown. They\n" +
			"are shown for a while after their last poll (rest.client_ttl), by the node that they polled\n" +
			"last; for some seconds by the one before, too.\n\n" +
			"With --watch it goes on until it is interrupted (Ctrl-C); where the output is no\n" +
			"terminal, or is for programs, one answer follows the other.\n\n" +
			"The exit code is 1 if --fail-on finds a client, or --wait does not come to its end.",
		Example: "  xdsrelay status\n" +
			"  xdsrelay status envoy-7 --resources\n" +
			"  xdsrelay status --key shop/eu --state nacked,stale -o wide\n" +
			"  xdsrelay status --state nacked,stale --watch\n" +
			"  xdsrelay status --fail-on nacked\n" +
			"  xdsrelay status --key shop/eu --wait --timeout 2m",
		Args: atMostOne("CLIENT"),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable, asWide, asJSON, asYAML)
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "only clients of this aggregation `KEY`")
	flags.StringVar(&f.node, "node", "", "only clients of this `NODE` of the tier")
	flags.StringVar(&f.state, "state", "", "only clients that have a type in one of these `STATES`, separated by commas; missing for those that ask for what does not exist")
	flags.StringVar(&f.typ, "type", "", "only clients that ask for this `TYPE`, like CDS; with --state, that stand so with it")
	flags.BoolVar(&f.resources, "resources", false, "with CLIENT, list the resources that it asks for")
	flags.StringVar(&f.failOn, "fail-on", "", "end with exit code 1 if a client has a type in one of these `STATES`, or a node does not answer")
	flags.BoolVar(&f.wait, "wait", false, "wait until there are clients, none is STALE, NACKED or UNKNOWN, and none asks for what does not exist, or the timeout is over")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait with --wait")
	flags.BoolVarP(&f.watch, "watch", "w", false, "ask again and again")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "the time between two answers with --watch")
	cmd.MarkFlagsMutuallyExclusive("watch", "wait")
	cmd.MarkFlagsMutuallyExclusive("watch", "fail-on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		if err := out.check(); err != nil {
			return err
		}
		if err := f.check(len(args) > 0); err != nil {
			return err
		}
		if f.wait {
			if err := a.awaitSync(cmd.Context(), node, f); err != nil {
				return err
			}
		}
		show := func(ctx context.Context, w, notes io.Writer) error {
			if len(args) > 0 {
				return statusOf(ctx, w, notes, node, out, args[0], f)
			}
			return statusOfAll(ctx, w, notes, node, out, f)
		}
		if !f.watch {
			return show(cmd.Context(), a.stdout, a.stderr)
		}
		return a.watchStatus(cmd.Context(), out, f.interval, show)
	}
	a.completeNames(cmd, node)
	return cmd
}

// check tells what is wrong with the flags, before a node is asked. one says that a
// client is named.
func (f *statusFlags) check(one bool) error {
	for _, of := range []struct {
		flag string
		set  bool
	}{{"--key", f.key != ""}, {"--node", f.node != ""}, {"--state", f.state != ""}, {"--type", f.typ != ""}, {"--wait", f.wait}} {
		if one && of.set {
			return usageError{fmt.Errorf("%s is about all clients: expected no CLIENT with it", of.flag)}
		}
	}
	if f.resources && !one {
		return usageError{errors.New("--resources is about one client: expected a CLIENT with it")}
	}
	for _, states := range []struct{ flag, text string }{{"--state", f.state}, {"--fail-on", f.failOn}} {
		if _, err := ops.ParseStates(states.text); states.text != "" && err != nil {
			return usageError{fmt.Errorf("%s: %s", states.flag, strings.TrimPrefix(err.Error(), "state: "))}
		}
	}
	if f.timeout < 0 {
		return usageError{fmt.Errorf("--timeout: got %s, expected at least 0", f.timeout)}
	}
	return errors.Join(checkType(f.typ), checkInterval(f.interval))
}

// query is what the flags ask for.
func (f *statusFlags) query() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{"key": f.key, "node": f.node, "state": f.state, "type": f.typ} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// pageSize is how many clients are asked for at a time.
const pageSize = "2000"

// clients asks for all pages of a query.
func (r *remote) clients(ctx context.Context, query url.Values) (all ops.Page, err error) {
	query.Set("limit", pageSize)
	for {
		var page ops.Page
		if _, err := r.get(ctx, "/api/v1/clients", query, &page); err != nil {
			return all, err
		}
		all.Clients, all.Silent = append(all.Clients, page.Clients...), page.Silent
		if page.Next == "" {
			return all, nil
		}
		query.Set("page", page.Next)
	}
}

// The errors of scripts.
var (
	errFound    = errors.New("there are clients that --fail-on names")
	errSilent   = errors.New("not all nodes of the tier have answered")
	errNobodyIs = errors.New("no client is like that")
)

// statusOfAll shows the clients as a table; who did not answer goes to notes.
func statusOfAll(ctx context.Context, w, notes io.Writer, node *remote, out *output, f statusFlags) error {
	var page ops.Page
	ask := func(ctx context.Context) (err error) {
		page, err = node.clients(ctx, f.query())
		return err
	}
	if out.isData() {
		if err := ask(ctx); err != nil {
			return err
		}
		if err := out.data(w, page); err != nil {
			return err
		}
	} else {
		warnings, err := node.withWarnings(ctx, ask)
		if err != nil {
			return err
		}
		printClients(w, notes, page, out.form == asWide, f)
		warningLines(notes, warnings, time.Now())
	}
	return f.failure(page)
}

func printClients(w, notes io.Writer, page ops.Page, wide bool, f statusFlags) {
	now := time.Now()
	if len(page.Clients) == 0 {
		if f.query().Encode() == "" {
			fmt.Fprintln(w, "no clients: none has come yet, or none has said who it is")
		} else {
			fmt.Fprintln(w, errNobodyIs)
		}
	} else {
		clientTable(w, page.Clients, wide, now)
		fmt.Fprintf(w, "\n%s\n", sumLine(page.Clients))
		if !wide {
			rejections(w, page.Clients, now)
		}
	}
	silentLines(notes, page.Silent)
}

// failure is what --fail-on makes of clients.
func (f *statusFlags) failure(page ops.Page) error {
	if f.failOn == "" {
		return nil
	}
	bad, err := ops.ParseStates(f.failOn)
	if err != nil {
		return usageError{err}
	}
	for i := range page.Clients {
		if slices.ContainsFunc(bad, page.Clients[i].Has) {
			return errFound
		}
	}
	if len(page.Silent) > 0 {
		return errSilent
	}
	return nil
}

// statusOf shows one client, likewise.
func statusOf(ctx context.Context, w, notes io.Writer, node *remote, out *output, name string, f statusFlags) error {
	query := url.Values{"client": {name}}
	if f.resources {
		query.Set("resources", "10000")
	}
	var found ops.Found
	ask := func(ctx context.Context) (err error) {
		found, err = node.find(ctx, query)
		return err
	}
	if out.isData() {
		if err := ask(ctx); err != nil {
			return err
		}
		if err := out.data(w, found); err != nil {
			return err
		}
	} else {
		warnings, err := node.withWarnings(ctx, ask)
		if err != nil {
			return err
		}
		now := time.Now()
		for i := range found.Clients {
			if i > 0 {
				fmt.Fprint(w, "\n\n")
			}
			clientDetail(w, &found.Clients[i], now)
		}
		if found.More {
			fmt.Fprint(w, "\nand more clients of that name\n")
		}
		silentLines(notes, found.Silent)
		warningLines(notes, warnings, now)
	}
	return f.failure(ops.Page{Clients: found.Clients, Silent: found.Silent})
}

// find looks for a client by its name, or says who could be meant.
func (r *remote) find(ctx context.Context, query url.Values) (found ops.Found, err error) {
	code, err := r.get(ctx, "/api/v1/client", query, &found)
	if err != nil || code == http.StatusOK {
		return found, err
	}
	return found, nobodyCalled(query.Get("client"), found)
}

// nobodyCalled says who could be meant by a name that nobody has.
func nobodyCalled(name string, found ops.Found) error {
	var b strings.Builder
	switch {
	case len(found.Names) > 0:
		fmt.Fprintf(&b, "%q is the beginning of several names:", name)
		for _, n := range found.Names {
			fmt.Fprintf(&b, "\n  %s", printable(n))
		}
		if found.More {
			b.WriteString("\n  …")
		}
	case len(found.Near) > 0:
		fmt.Fprintf(&b, "no client is called %q; did you mean this?", name)
		for _, n := range found.Near {
			fmt.Fprintf(&b, "\n  %s", printable(n))
		}
	default:
		fmt.Fprintf(&b, "no client is called %q; 'xdsrelay status' lists the clients", name)
	}
	for _, s := range found.Silent {
		fmt.Fprintf(&b, "\nit may be on node %s, which did not answer: %s", printable(s.Node), printable(s.Error))
	}
	return errors.New(b.String())
}

// awaitPause is between two looks of --wait.
const awaitPause = 500 * time.Millisecond

// awaitSync waits until the clients have what they should have.
func (a *app) awaitSync(ctx context.Context, node *remote, f statusFlags) error {
	deadline := time.Now().Add(f.timeout)
	for {
		behind := f.query()
		behind.Set("state", strings.Join([]string{string(ops.Stale), string(ops.Nacked), string(ops.Unknown), string(ops.MissingResource)}, ","))
		some := f.query()
		some.Set("limit", "1")
		late, err := node.clients(ctx, behind)
		if err == nil && len(late.Clients) == 0 && len(late.Silent) == 0 {
			var present ops.Page
			if _, err = node.get(ctx, "/api/v1/clients", some, &present); err == nil && len(present.Clients) > 0 {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if !time.Now().Before(deadline) {
			printClients(a.stdout, a.stderr, late, false, f)
			switch {
			case len(late.Silent) > 0:
				return errSilent
			case len(late.Clients) > 0:
				return fmt.Errorf("after %s, %s not in sync, or asking for resources that do not exist", f.timeout, isOrAre(len(late.Clients)))
			}
			return fmt.Errorf("after %s, %w", f.timeout, errNobodyIs)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

func isOrAre(clients int) string {
	if clients == 1 {
		return "1 client is"
	}
	return count(clients, "client") + " are"
}
