package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"xdsrelay/relay/ops"
)

// nodeRows is a table of the nodes.
func nodeRows(p picture) [][]string {
	rows := [][]string{{"NODE", "CLIENTS", "STREAMS", "SYNCED", "STALE", "NACKED", "NOT_SENT", "UNKNOWN", "MISSING", "UNACKED", "VERSION", "NOTES"}}
	versions, notes := map[string]string{}, map[string]string{}
	for _, m := range p.members.Members.Members {
		versions[m.Name] = m.Version
		switch {
		case m.Draining:
			notes[m.Name] = "draining"
		case m.Cut:
			notes[m.Name] = "no origin"
		}
	}
	for _, m := range p.members.Strays {
		versions[m.Name], notes[m.Name] = m.Version, "no member of the tier"
	}
	for _, n := range p.members.Nodes {
		switch {
		case n.State == "not ready":
			notes[n.Name] = n.State
		case n.Redis != nil && !n.Redis.Up && notes[n.Name] == "":
			notes[n.Name] = "no Redis"
		}
	}
	for _, n := range p.summary.Nodes {
		row := []string{n.Node, fmt.Sprint(n.Clients), fmt.Sprint(n.Streams)}
		for _, s := range []ops.State{ops.Synced, ops.Stale, ops.Nacked, ops.NotSent, ops.Unknown} {
			row = append(row, fmt.Sprint(n.States[s]))
		}
		rows = append(rows, append(row, fmt.Sprint(n.Missing), bytesText(n.Unacked), versions[n.Node], notes[n.Node]))
	}
	for _, s := range p.summary.Silent {
		rows = append(rows, []string{s.Node, "", fmt.Sprint(s.Clients), "", "", "", "", fmt.Sprint(s.Clients), "", "", versions[s.Node], "did not answer"})
	}
	for _, m := range p.members.Missing {
		if !slices.ContainsFunc(p.summary.Silent, func(s ops.Silent) bool { return s.Node == m.Name }) {
			rows = append(rows, []string{m.Name, "", "", "", "", "", "", "", "", "", m.Version, "does not answer"})
		}
	}
	return rows
}

// mostKeys is how many keys are listed.
const mostKeys = 20

// keyRows is a table of the keys, those first that are updated most.
func keyRows(last, now picture) [][]string {
	type line struct {
		ops.Key

		updates, changes float64
		clients          int
		states           ops.Count
		at               ops.NodeKey // where it comes from
	}
	before := map[string]ops.NodeKey{}
	for _, k := range last.keys.Keys {
		before[k.Key] = origin(k)
	}
	seconds := max(now.at.Sub(last.at).Seconds(), 0.001)
	var lines []line
	for _, k := range now.keys.Keys {
		l := line{Key: k, states: ops.Count{}, at: origin(k)}
		for _, n := range k.Nodes {
			l.clients += n.Clients
			for s, c := range n.States {
				l.states[s] += c
			}
		}
		if b, ok := before[k.Key]; ok && b.Node == l.at.Node && b.Updates <= l.at.Updates {
			l.updates, l.changes = float64(l.at.Updates-b.Updates)/seconds, float64(l.at.Changes-b.Changes)/seconds
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.updates, a.updates), cmp.Compare(b.clients, a.clients), strings.Compare(a.Key.Key, b.Key.Key))
	})
	rows := [][]string{{"KEY", "OWNER", "UPDATES/S", "CHANGES/S", "STREAMS", "SYNCED", "STALE", "NACKED", "OTHERS", "RESOURCES", "BYTES", "NOTES"}}
	for i, l := range lines {
		if i == mostKeys {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(lines)-i)})
			break
		}
		rows = append(rows, []string{
			l.Key.Key, l.Owner, fmt.Sprintf("%.1f", l.updates), fmt.Sprintf("%.1f", l.changes), fmt.Sprint(l.clients),
			fmt.Sprint(l.states[ops.Synced]), fmt.Sprint(l.states[ops.Stale]), fmt.Sprint(l.states[ops.Nacked]),
			fmt.Sprint(l.states[ops.NotSent] + l.states[ops.Unknown]), fmt.Sprint(l.at.Resources), bytesText(l.at.Bytes), keyNotes(l.at),
		})
	}
	return rows
}

// origin is the node that has the key's streams to the origin, or any.
func origin(k ops.Key) ops.NodeKey {
	for _, n := range k.Nodes {
		if n.Node == k.Owner {
			return n
		}
	}
	if len(k.Nodes) > 0 {
		return k.Nodes[0]
	}
	return ops.NodeKey{}
}

func keyNotes(n ops.NodeKey) string {
	var notes []string
	switch {
	case n.State == "idle" || n.Connected:
	case n.Error == "":
		notes = append(notes, "connecting")
	default:
		notes = append(notes, "no stream: "+n.Error)
	}
	if n.Stale {
		notes = append(notes, "stale")
	}
	if n.HeldRemovals > 0 {
		notes = append(notes, count(n.HeldRemovals, "removal")+" held")
	}
	if n.State == "idle" {
		notes = append(notes, "idle")
	}
	return strings.Join(notes, "; ")
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%dB", n)
	}
	v, unit := float64(n)/step, 0
	for v >= step && unit < 3 {
		v, unit = v/step, unit+1
	}
	return fmt.Sprintf("%.1f%ciB", v, "KMGT"[unit])
}
