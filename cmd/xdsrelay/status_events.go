package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// eventsOf shows the last events of a client.
func eventsOf(ctx context.Context, w, notes io.Writer, node *remote, out *output, name string) error {
	var all ops.ClientEvents
	code, err := node.get(ctx, "/api/v1/client/events", url.Values{"client": {name}}, &all)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return noEvents(name, &all)
	}
	if err := out.print(w, view{
		data:  all,
		names: namesOf(all.Events, func(e *ops.ClientEvent) string { return e.Event }),
		table: func(w io.Writer, wide bool) { printClientEvents(w, &all, wide, time.Now()) },
	}); err != nil {
		return err
	}
	if !out.isData() {
		silentEvents(notes, all.Silent)
	}
	return nil
}

// silentEvents names the nodes that did not answer.
func silentEvents(w io.Writer, silent []ops.Silent) {
	for _, s := range silent {
		fmt.Fprintf(w, "node %s did not answer, and may have further events: %s\n", printable(s.Node), printable(s.Error))
	}
}

// noEvents says why there are no events.
func noEvents(name string, all *ops.ClientEvents) error {
	switch {
	case len(all.Off) > 0:
		return fmt.Errorf("there are no events of %q: limits.max_client_events_size is 0B on node %s", name, printable(strings.Join(all.Off, ", ")))
	case len(all.Names) == 1 && all.Names[0] == name:
		return errors.New("the client has no events yet")
	}
	return noSuchClient(name, ops.Found{Names: all.Names, Similar: all.Similar, Silent: all.Silent})
}

func printClientEvents(w io.Writer, all *ops.ClientEvents, wide bool, now time.Time) {
	header := []string{"AGE", "TIME", "NODE", "TYPE", "EVENT", "VERSION"}
	if wide {
		header = append(header, "KEY", "PEER")
	}
	rows := [][]string{header}
	for i := range all.Events {
		e := &all.Events[i]
		version := e.Version
		if !wide {
			version = shortVersion(version)
		}
		row := []string{ago(now, e.At), e.At.Local().Format("2006-01-02 15:04:05.000"), e.Node, e.Type, e.What(), version}
		if wide {
			row = append(row, e.Key, e.Peer)
		}
		rows = append(rows, row)
	}
	if all.More {
		fmt.Fprintln(w, "(older events are omitted)")
	}
	columns(w, rows)
}
