package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// nodeNotes are the problems of the nodes that answered.
func nodeNotes(p *snapshot) map[string]string {
	notes := map[string]string{}
	for _, m := range p.Nodes.Members.Members {
		switch {
		case m.Draining:
			notes[m.Name] = "draining"
		case m.Cut:
			notes[m.Name] = "control plane unreachable"
		}
	}
	for _, m := range p.Nodes.Strays {
		notes[m.Name] = "isolated"
	}
	for _, n := range p.Nodes.Nodes {
		switch {
		case n.State == ops.NodeNotReady:
			notes[n.Name] = "not ready"
		case n.Redis != nil && !n.Redis.Up && notes[n.Name] == "":
			notes[n.Name] = "Redis unreachable"
		}
	}
	return notes
}

// notAnswering are the other nodes, with the number of streams in their last report.
func notAnswering(p *snapshot) map[string]string {
	all := map[string]string{}
	for _, m := range p.Nodes.Missing {
		all[m.Name] = ""
	}
	for _, s := range p.Summary.Silent {
		all[s.Node] = fmt.Sprint(s.Clients)
	}
	return all
}

// nodeRows is a table of the nodes.
func nodeRows(p *snapshot) [][]string {
	rows := [][]string{{"NODE", "CLIENTS", "STREAMS", "SYNCED", "STALE", "NACKED", "NOT_SENT", "UNKNOWN", "MISSING", "UNACKED", "VERSION", "NOTES"}}
	versions, notes := map[string]string{}, nodeNotes(p)
	for _, m := range append(slices.Clone(p.Nodes.Members.Members), p.Nodes.Strays...) {
		versions[m.Name] = m.Version
	}
	for _, m := range p.Nodes.Missing {
		versions[m.Name] = m.Version
	}
	for _, n := range p.Summary.Nodes {
		row := []string{n.Node, fmt.Sprint(n.Clients), fmt.Sprint(n.Streams)}
		for _, s := range []ops.State{ops.Synced, ops.Stale, ops.Nacked, ops.NotSent, ops.Unknown} {
			row = append(row, fmt.Sprint(n.States[s]))
		}
		rows = append(rows, append(row, fmt.Sprint(n.Missing), bytesText(n.Unacked), versions[n.Node], notes[n.Node]))
	}
	silent := notAnswering(p)
	for _, name := range slices.Sorted(maps.Keys(silent)) {
		rows = append(rows, []string{name, "", silent[name], "", "", "", "", silent[name], "", "", versions[name], "does not answer"})
	}
	return rows
}

// keyActivity is a key with what happened to it recently.
type keyActivity struct {
	ops.Key

	UpdatesPerSecond float64   `json:"updates_per_second"`
	ChangesPerSecond float64   `json:"changes_per_second"`
	Streams          int       `json:"streams"`
	States           ops.Count `json:"states"`

	at ops.NodeKey // on the node with the upstream stream
}

// activity returns the keys, those with the most updates first.
func activity(last *snapshot, now time.Time, keys []ops.Key) []keyActivity {
	before, seconds := map[string]ops.NodeKey{}, 0.001
	if last != nil {
		seconds = max(now.Sub(last.At).Seconds(), seconds)
		for i := range last.Keys {
			before[last.Keys[i].Key.Key] = last.Keys[i].at
		}
	}
	all := []keyActivity{}
	for _, k := range keys {
		one := keyActivity{Key: k, States: ops.Count{}, at: atSource(k)}
		for _, n := range k.Nodes {
			one.Streams += n.Clients
			for s, c := range n.States {
				one.States[s] += c
			}
		}
		if b, ok := before[k.Key]; ok && b.Node == one.at.Node && b.Updates <= one.at.Updates {
			one.UpdatesPerSecond, one.ChangesPerSecond = float64(one.at.Updates-b.Updates)/seconds, float64(one.at.Changes-b.Changes)/seconds
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b keyActivity) int {
		return cmp.Or(cmp.Compare(b.UpdatesPerSecond, a.UpdatesPerSecond), cmp.Compare(b.Streams, a.Streams), strings.Compare(a.Key.Key, b.Key.Key))
	})
	return all
}

// mostKeys limits the keys in a table; a wide one has all.
const mostKeys = 20

// keyRows is a table of the keys.
func keyRows(keys []keyActivity, wide bool) [][]string {
	rows := [][]string{{"KEY", "OWNER", "UPDATES/S", "CHANGES/S", "STREAMS", "SYNCED", "STALE", "NACKED", "OTHER", "RESOURCES", "BYTES", "NOTES"}}
	for i, k := range keys {
		if i == mostKeys && !wide {
			return append(rows, []string{fmt.Sprintf("and %d more", len(keys)-i)})
		}
		notes := admin.NotesOfKey(k.at)
		if k.at.State == "idle" {
			notes = "idle"
		}
		rows = append(rows, []string{
			k.Key.Key, k.Owner, fmt.Sprintf("%.1f", k.UpdatesPerSecond), fmt.Sprintf("%.1f", k.ChangesPerSecond), fmt.Sprint(k.Streams),
			fmt.Sprint(k.States[ops.Synced]), fmt.Sprint(k.States[ops.Stale]), fmt.Sprint(k.States[ops.Nacked]),
			fmt.Sprint(k.States[ops.NotSent] + k.States[ops.Unknown]), fmt.Sprint(k.at.Resources), bytesText(k.at.Bytes), notes,
		})
	}
	return rows
}

// atSource returns the key on its owner, or on any node.
func atSource(k ops.Key) ops.NodeKey {
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

// bytesText is a number of bytes with a unit.
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
