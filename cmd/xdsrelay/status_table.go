package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/fleet"
)

// clientTable writes clients as a table, a column for each type that one of them asks
// for, and below it who has rejected what.
func clientTable(w io.Writer, clients []fleet.Client, wide bool, now time.Time) {
	types := typesOf(clients)
	head := append([]string{"NAME", "KEY"}, types...)
	head = append(head, "NODE", "SINCE", "VERSION")
	if wide {
		head = append(head, "CLUSTER", "PEER", "VARIANT", "CONNECTED", "NACKS", "LAST NACK")
	}
	rows := [][]string{head}
	for i := range clients {
		c := &clients[i]
		row := []string{c.Name, c.Key}
		for _, name := range types {
			row = append(row, cellOf(c, name, wide, now))
		}
		row = append(row, c.Node, ago(now, c.Since), newestVersion(c, wide))
		if wide {
			nacks, last := uint32(0), ""
			for _, t := range c.Types {
				nacks += t.Nacks
				if t.Nack != nil {
					last = t.Name + ": " + t.Nack.Message
				}
			}
			row = append(row, c.Cluster, c.Peer, strings.Join(c.Variants, "+"), ago(now, c.Connected), fmt.Sprint(nacks), last)
		}
		rows = append(rows, row)
	}
	columns(w, rows)
}

// cellOf is how a client stands with a type.
func cellOf(c *fleet.Client, name string, wide bool, now time.Time) string {
	i := slices.IndexFunc(c.Types, func(t fleet.Type) bool { return t.Name == name })
	if i < 0 {
		return ""
	}
	t := c.Types[i]
	if !wide {
		return string(t.State)
	}
	return string(t.State) + " (" + ago(now, t.Since) + ")"
}

// newestVersion is the version that the client was sent last, of any type.
func newestVersion(c *fleet.Client, whole bool) string {
	if len(c.Types) == 0 {
		return ""
	}
	newest := slices.MaxFunc(c.Types, func(a, b fleet.Type) int { return a.SentAt.Compare(b.SentAt) })
	if whole {
		return newest.Version
	}
	return shortVersion(newest.Version)
}

// columnOrder is that of `istioctl proxy-status`, and then what it has not.
var columnOrder = []string{"CDS", "LDS", "EDS", "RDS", "ECDS", "SRDS", "VHDS", "SDS", "RTDS", "LEDS"}

func typesOf(clients []fleet.Client) (types []string) {
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

// sumLine counts clients by how they stand.
func sumLine(clients []fleet.Client) string {
	states := fleet.Count{}
	for i := range clients {
		states[clients[i].State]++
	}
	return count(len(clients), "client") + statesLine(states)
}

// statesLine is ": 3 SYNCED, 1 STALE", or nothing.
func statesLine(states fleet.Count) string {
	var parts []string
	for _, s := range slices.Backward(fleet.States()) {
		if n := states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// maxReasons bounds the reasons for rejections that are listed below a table.
const maxReasons = 10

// rejections writes who has rejected what and why, each reason once.
func rejections(w io.Writer, clients []fleet.Client, now time.Time) {
	type reason struct{ name, version, message string }
	type group struct {
		reason
		clients []string
		since   time.Time
	}
	var groups []*group
	byReason := make(map[reason]*group)
	for i := range clients {
		for _, t := range clients[i].Types {
			if t.Nack == nil {
				continue
			}
			r := reason{t.Name, t.Nack.Version, t.Nack.Message}
			g := byReason[r]
			if g == nil {
				g = &group{reason: r, since: t.Nack.At}
				byReason[r] = g
				groups = append(groups, g)
			}
			g.clients = append(g.clients, clients[i].Name)
			if t.Nack.At.Before(g.since) {
				g.since = t.Nack.At
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(len(b.clients), len(a.clients)) })
	for i, g := range groups {
		if i == maxReasons {
			fmt.Fprintf(w, "and %d other reasons: see -o wide\n", len(groups)-i)
			return
		}
		who := printable(g.clients[0])
		if n := len(g.clients); n > 1 {
			who = fmt.Sprintf("%d clients, such as %s,", n, who)
		}
		of := g.name
		if g.version != "" {
			of += " " + shortVersion(g.version)
		}
		fmt.Fprintf(w, "%s rejected %s %s ago: %s\n", who, printable(of), ago(now, g.since), printable(g.message))
	}
}

// silentLines are about nodes that did not answer.
func silentLines(w io.Writer, silent []fleet.Silent) {
	for _, s := range silent {
		since := ""
		if !s.Since.IsZero() {
			since = ", for " + ago(time.Now(), s.Since)
		}
		fmt.Fprintf(w, "node %s did not answer%s, so its clients are UNKNOWN (it last had %s): %s\n", printable(s.Node), since, count(s.Clients, "stream"), printable(s.Error))
	}
}
