package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// statusFlags select clients, and say which state they should have.
type statusFlags struct {
	rowFlags

	key, node, state, typ string
	resources, events     bool
	failOn                string
	wait                  bool
	version               string
	timeout               time.Duration
	watch                 bool
	interval              time.Duration
}

// newStatusCmd shows which version each client has.
func (a *app) newStatusCmd() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [CLIENT]",
		Short: "Show the status of each client: version, age, and reason of a NACK",
		Long: "Show the status of each client of a tier for each type that the client subscribes to.\n" +
			"All nodes of the tier give the same answer.\n\n" +
			"  SYNCED    the client has acknowledged (ACK) the newest version\n" +
			"  STALE     the newest version was not sent to the client, or is awaiting ACK\n" +
			"  NACKED    the client has rejected the newest version and uses an older one\n" +
			"  NOT_SENT  there was nothing to send yet\n" +
			"  UNKNOWN   the client resumed with resources that the node cannot compare yet, or the\n" +
			"            node of the client does not answer\n" +
			"  -         the client does not subscribe to the type\n\n" +
			"MISSING is the number of resource names in the client's subscriptions that do not exist:\n" +
			"the control plane does not have them, or has not answered yet. A client can be SYNCED\n" +
			"although resources are missing. SINCE is the age of the worst state of the client.\n" +
			"VERSION is the version in the last response to the client.\n\n" +
			"The first lines count all selected clients by state, and list the reasons of NACKs with\n" +
			"the number of clients and keys. A table has at most 50 clients, those in the worst state\n" +
			"first; --limit and --sort change that. Below the table are the nodes that do not answer\n" +
			"and the warnings of the tier.\n\n" +
			"With CLIENT, which is a node ID or its beginning, show all details of one client, with\n" +
			"the names of missing resources.\n\n" +
			"With CLIENT and --events, show the last events of the client on all nodes: connects,\n" +
			"responses and their answers, waits of a second or more, and why streams ended. They\n" +
			"outlast the connection: nodes keep them for an hour after a client has left, within\n" +
			"8 MiB. limits.max_client_events_size sets how many there are.\n\n" +
			"A polling client (REST, variant rest) acknowledges a version with its next poll. If the\n" +
			"next poll has an older version, the client is STALE: it rejected the newest version\n" +
			"without a report, or did not get it. The details of the client show the number of\n" +
			"resends. A polling client remains in the list for some time after its last poll, on\n" +
			"the node of that poll, and for some seconds on the node before.\n\n" +
			"With --wait --version V, wait until all selected clients have acknowledged the updates with\n" +
			"version V of the control plane (version_info or system_version_info), or newer ones. Only\n" +
			"types count that had an update with V. Keys that had none are waited for: select those of\n" +
			"the deployment with --key. A node remembers the last 16 versions of each type of a key.\n\n" +
			"With --watch, the command runs until it is interrupted (Ctrl-C). If the output is not a\n" +
			"terminal, it appends each update to the output.",
		Example: "  xdsrelay status\n" +
			"  xdsrelay status envoy-7 --resources\n" +
			"  xdsrelay status envoy-7 --events\n" +
			"  xdsrelay status --key shop/eu --state nacked,stale -o wide\n" +
			"  xdsrelay status --sort since --limit 10\n" +
			"  xdsrelay status --state nacked,stale --watch\n" +
			"  xdsrelay status --fail-on nacked\n" +
			"  xdsrelay status --key shop/eu --wait --timeout 2m\n" +
			"  xdsrelay status --wait --version v42",
		Args: atMostOne("CLIENT"),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", keyUsage)
	flags.StringVar(&f.node, "node", "", nodeUsage)
	flags.StringVar(&f.state, "state", "", "only clients with a type in one of these `STATES`, separated by commas; missing selects clients with missing resources")
	flags.StringVar(&f.typ, "type", "", typeUsage)
	flags.BoolVar(&f.resources, "resources", false, "with CLIENT, list the resources in its subscriptions")
	flags.BoolVar(&f.events, "events", false, "with CLIENT, show its last events instead, also after it has left")
	flags.StringVar(&f.failOn, "fail-on", "", "exit with 1 if a client has a type in one of these `STATES` or a node does not answer; values as for --state")
	flags.BoolVar(&f.wait, "wait", false, waitUsage+" clients are in sync: at least one is connected, each was sent configuration, none is STALE, NACKED or UNKNOWN, none waits for an unreachable control plane, and no resources are missing")
	flags.StringVar(&f.version, "version", "", "with --wait, wait until the clients have acknowledged the control plane's `VERSION` or a newer one")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, timeoutUsage)
	flags.BoolVarP(&f.watch, "watch", "w", false, watchUsage)
	flags.DurationVar(&f.interval, "interval", 2*time.Second, intervalUsage)
	addRows(cmd, &f.rowFlags)
	cmd.MarkFlagsMutuallyExclusive("watch", "wait")
	cmd.MarkFlagsMutuallyExclusive("watch", "fail-on")
	cmd.MarkFlagsMutuallyExclusive("events", "resources")
	cmd.MarkFlagsMutuallyExclusive("events", "fail-on")
	exitCodes(cmd, "success", "the command failed, --fail-on found a client, or --wait timed out", usuallyWrong)
	a.completeNames(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(out.check(), f.check(len(args) > 0), f.rowFlags.check(cmd), checkVersion(cmd, f.version)); err != nil {
			return err
		}
		if f.wait {
			await := a.awaitSync
			if f.version != "" {
				await = a.awaitVersion
			}
			if err := await(cmd.Context(), node, f); err != nil {
				return err
			}
		}
		show := func(ctx context.Context, w, notes io.Writer) error {
			if f.events {
				return eventsOf(ctx, w, notes, node, out, args[0])
			}
			if len(args) > 0 {
				return statusOf(ctx, w, notes, node, out, args[0], f)
			}
			return statusOfAll(ctx, w, notes, node, out, f)
		}
		if !f.watch {
			return show(cmd.Context(), a.stdout, a.stderr)
		}
		return a.watchOutput(cmd.Context(), out, f.interval, show)
	})
	return cmd
}

// check returns an error about the flags. one reports whether a CLIENT is given.
func (f *statusFlags) check(one bool) error {
	for _, of := range []struct {
		flag string
		set  bool
	}{{"--key", f.key != ""}, {"--node", f.node != ""}, {"--state", f.state != ""}, {"--type", f.typ != ""}, {"--wait", f.wait}, {"--sort", f.sort != ""}} {
		if one && of.set {
			return usageError{fmt.Errorf("%s selects among all clients: omit it, or omit CLIENT", of.flag)}
		}
	}
	if f.version != "" && !f.wait {
		return usageError{errVersionNeedsWait}
	}
	if f.resources && !one {
		return usageError{errors.New("--resources needs a CLIENT")}
	}
	if f.events && !one {
		return usageError{errors.New("--events needs a CLIENT")}
	}
	return errors.Join(checkStates("--state", f.state), checkStates("--fail-on", f.failOn), checkTimeout(f.timeout), checkType(f.typ), checkInterval(f.interval))
}

// query is the query for the selected clients.
func (f *statusFlags) query() url.Values {
	return queryOf(map[string]string{"key": f.key, "node": f.node, "state": f.state, "type": f.typ})
}

// The errors for scripts.
var (
	errFound    = errors.New("clients match --fail-on")
	errSilent   = errors.New("not all nodes of the tier have answered")
	errNobodyIs = errors.New("no clients match")
)

// statusOfAll shows the clients; lines about nodes that did not answer, and warnings, go to notes.
func statusOfAll(ctx context.Context, w, notes io.Writer, node *remote, out *output, f statusFlags) error {
	now, limit := time.Now(), f.most(out)
	switch {
	case out.isData():
		if err := clientData(ctx, w, node, out, &f, limit); err != nil {
			return err
		}
		return f.search(ctx, node)
	case out.form == asName:
		silent, err := clientNames(ctx, w, node, &f, limit)
		if err != nil {
			return err
		}
		silentLines(notes, silent)
		return f.search(ctx, node)
	}
	var page ops.Page
	warnings, err := node.withWarnings(ctx, true, func(ctx context.Context) (err error) {
		page, err = node.clients(ctx, f.query(), f.order(), limit)
		return err
	})
	if err != nil {
		return err
	}
	printClients(w, page, out.form == asWide, f, now)
	silentLines(notes, page.Silent)
	warningLines(notes, warnings, now)
	return f.search(ctx, node)
}

// search returns the error of --fail-on: it asks for one client in such a state among those selected.
func (f *statusFlags) search(ctx context.Context, node *remote) error {
	if f.failOn == "" {
		return nil
	}
	bad, err := ops.ParseStates(f.failOn)
	if err != nil {
		return usageError{err}
	}
	query := f.query()
	query.Set("sort", string(ops.ByName))
	query.Set("limit", strconv.Itoa(1))
	var page ops.Page
	if f.state == "" {
		query.Set("state", f.failOn)
		_, err = node.get(ctx, "/api/v1/clients", query, &page)
	} else { // the state may be that of another type
		page, err = node.clients(ctx, f.query(), ops.ByName, 0)
	}
	if err != nil {
		return err
	}
	return failureOf(bad, page.Clients, page.Silent)
}

// failureOf returns the error of --fail-on for clients.
func failureOf(bad []ops.State, clients []ops.Client, silent []ops.Silent) error {
	for i := range clients {
		if slices.ContainsFunc(bad, clients[i].Has) {
			return errFound
		}
	}
	if len(silent) > 0 {
		return errSilent
	}
	return nil
}

// failure returns the error of --fail-on for the clients of a name.
func (f *statusFlags) failure(clients []ops.Client, silent []ops.Silent) error {
	if f.failOn == "" {
		return nil
	}
	bad, err := ops.ParseStates(f.failOn)
	if err != nil {
		return usageError{err}
	}
	return failureOf(bad, clients, silent)
}

// statusOf shows the clients of a name.
func statusOf(ctx context.Context, w, notes io.Writer, node *remote, out *output, name string, f statusFlags) error {
	query := url.Values{"client": {name}}
	if f.resources {
		query.Set("resources", "10000")
	}
	var found ops.Found
	warnings, err := node.withWarnings(ctx, out.isTable(), func(ctx context.Context) (err error) {
		found, err = node.find(ctx, query)
		return err
	})
	if err != nil {
		return err
	}
	now := time.Now()
	if err := out.print(w, view{
		data:  found,
		names: namesOf(found.Clients, func(c *ops.Client) string { return c.Name }),
		table: func(w io.Writer, _ bool) {
			for i := range found.Clients {
				if i > 0 {
					fmt.Fprint(w, "\n\n")
				}
				clientDetail(w, &found.Clients[i], now, columns)
			}
			if found.More {
				fmt.Fprint(w, "\nand more clients with this name\n")
			}
		},
	}); err != nil {
		return err
	}
	if !out.isData() {
		silentLines(notes, found.Silent)
		warningLines(notes, warnings, now)
	}
	return f.failure(found.Clients, found.Silent)
}

// find returns the clients with a name, or an error that suggests others.
func (r *remote) find(ctx context.Context, query url.Values) (found ops.Found, err error) {
	code, err := r.get(ctx, "/api/v1/client", query, &found)
	if err != nil || code == http.StatusOK {
		return found, err
	}
	return found, noSuchClient(query.Get("client"), found)
}

// noSuchClient suggests clients if no client has a name.
func noSuchClient(name string, found ops.Found) error {
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
	case len(found.Similar) > 0:
		fmt.Fprintf(&b, "no client has the name %q; did you mean:", name)
		for _, n := range found.Similar {
			fmt.Fprintf(&b, "\n  %s", printable(n))
		}
	default:
		fmt.Fprintf(&b, "no client has the name %q; %s", name, clientsHint)
	}
	for _, s := range found.Silent {
		fmt.Fprintf(&b, "\nnode %s, which did not answer, may have the client: %s", printable(s.Node), printable(s.Error))
	}
	return errors.New(b.String())
}

// awaitPause is the time between two requests of --wait.
const awaitPause = 500 * time.Millisecond

// awaitSync waits until the clients are in sync.
func (a *app) awaitSync(ctx context.Context, node *remote, f statusFlags) error {
	deadline := time.Now().Add(f.timeout)
	for {
		behind := f.query()
		behind.Set("state", strings.Join([]string{string(ops.Stale), string(ops.Nacked), string(ops.Unknown), string(ops.MissingResource)}, ","))
		late, err := node.clients(ctx, behind, ops.ByState, usualRows)
		if err == nil && len(late.Clients) == 0 && len(late.Silent) == 0 {
			var present ops.Page
			some := f.query()
			some.Set("limit", "1")
			if _, err = node.get(ctx, "/api/v1/clients", some, &present); err == nil && len(present.Clients) > 0 {
				if late, err = node.unserved(ctx, &f); err == nil && len(late.Clients) == 0 && len(late.Silent) == 0 {
					return nil
				}
			}
		}
		if err != nil {
			return err
		}
		if !time.Now().Before(deadline) {
			printClients(a.stdout, late, false, f, time.Now())
			silentLines(a.stderr, late.Silent)
			switch {
			case len(late.Silent) > 0:
				return errSilent
			case len(late.Clients) > 0 && late.Clients[0].Unserved(ops.TypeURL(f.typ)):
				return fmt.Errorf("timeout after %s: %s without configuration", f.timeout, count(late.Summary.Clients, "client"))
			case len(late.Clients) > 0:
				return fmt.Errorf("timeout after %s: %s not in sync, or with missing resources", f.timeout, count(late.Summary.Clients, "client"))
			}
			return fmt.Errorf("timeout after %s: %w", f.timeout, errNobodyIs)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

// unserved returns the first clients, of those that the flags select, that have no configuration yet.
func (r *remote) unserved(ctx context.Context, f *statusFlags) (ops.Page, error) {
	query := f.query()
	query.Set("state", strings.ToLower(string(ops.NotSent)))
	found := ops.Page{}
	err := eachPage(ctx, r, query, pageSize, 0, func(page *clientPage[ops.Client]) error {
		found.Silent = page.Silent
		for i := range page.Clients {
			if page.Clients[i].Unserved(ops.TypeURL(f.typ)) {
				found.Clients = append(found.Clients, page.Clients[i])
			}
		}
		return nil
	})
	sum := ops.SumClients(found.Clients, found.Silent)
	found.Summary = &sum
	found.Clients = found.Clients[:min(len(found.Clients), usualRows)]
	return found, err
}
