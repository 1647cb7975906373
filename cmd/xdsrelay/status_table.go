package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// clientTable writes clients as a table, with a column for each type that one of them subscribes to.
func clientTable(w io.Writer, clients []ops.Client, wide bool, now time.Time) {
	types := typesOf(clients)
	head := append([]string{"NAME", "KEY"}, types...)
	head = append(head, "MISSING", "NODE", "SINCE", "VERSION")
	if wide {
		head = append(head, "CONTROL PLANE VERSION", "CLUSTER", "PEER", "VARIANT", "CONNECTED", "NACKS", "LAST NACK")
	}
	rows := [][]string{head}
	for i := range clients {
		c := &clients[i]
		row := []string{c.Name, c.Key}
		for _, name := range types {
			row = append(row, cellOf(c, name, wide, now))
		}
		row = append(row, fmt.Sprint(c.Missing), c.Node, ago(now, c.Since), newestVersion(c, wide))
		if wide {
			nacks, last, versions := uint32(0), "", make(map[string]string)
			for _, t := range c.Types {
				if t.ControlPlaneVersion != "" {
					versions[t.Name] = t.ControlPlaneVersion
				}
				nacks += t.Nacks
				if t.Nack != nil {
					last = t.Name + ": " + t.Nack.Message
				}
			}
			row = append(row, admin.VersionsText(versions), c.Cluster, c.Peer, strings.Join(c.Variants, "+"), ago(now, c.Connected), fmt.Sprint(nacks), last)
		}
		rows = append(rows, row)
	}
	columns(w, rows)
}

// cellOf is the state of a client for a type.
func cellOf(c *ops.Client, name string, wide bool, now time.Time) string {
	i := slices.IndexFunc(c.Types, func(t ops.Type) bool { return t.Name == name })
	if i < 0 {
		return ""
	}
	t := c.Types[i]
	if !wide {
		return string(t.State)
	}
	return string(t.State) + " (" + ago(now, t.Since) + ")"
}

// newestVersion is the version in the last response to the client, of any type.
func newestVersion(c *ops.Client, whole bool) string {
	if len(c.Types) == 0 {
		return ""
	}
	newest := slices.MaxFunc(c.Types, func(a, b ops.Type) int { return a.SentAt.Compare(b.SentAt) })
	if whole {
		return newest.Version
	}
	return shortVersion(newest.Version)
}

// columnOrder is the order of `istioctl proxy-status`, then the other types.
var columnOrder = []string{"CDS", "LDS", "EDS", "RDS", "ECDS", "SRDS", "VHDS", "SDS", "RTDS", "LEDS"}

func typesOf(clients []ops.Client) (types []string) {
	for i := range clients {
		for _, t := range clients[i].Types {
			if !slices.Contains(types, t.Name) {
				types = append(types, t.Name)
			}
		}
	}
	place := func(name string) int {
		if i := slices.Index(columnOrder, name); i >= 0 {
			return i
		}
		return len(columnOrder)
	}
	slices.SortFunc(types, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a, b)) })
	return types
}

// missingText is the number of clients with missing resources; empty for none.
func missingText(clients int) string {
	switch clients {
	case 0:
		return ""
	case 1:
		return "; 1 with missing resources"
	}
	return fmt.Sprintf("; %d with missing resources", clients)
}

// statesLine is ": 3 SYNCED, 1 STALE", or nothing.
func statesLine(states ops.Count) string {
	var parts []string
	for _, s := range slices.Backward(ops.States()) {
		if n := states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// silentLines writes a line for each node that did not answer.
func silentLines(w io.Writer, silent []ops.Silent) {
	for _, s := range silent {
		since := ""
		if !s.Since.IsZero() {
			since = ", for " + ago(time.Now(), s.Since)
		}
		fmt.Fprintf(w, "node %s does not answer%s; the states of its clients are UNKNOWN (last report: %s): %s\n", printable(s.Node), since, count(s.Clients, "stream"), printable(s.Error))
	}
}
