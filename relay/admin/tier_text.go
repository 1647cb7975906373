package admin

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// WriteNodes writes the nodes as a table, and the warnings below it.
func WriteNodes(w io.Writer, all NodesNow, wide bool, now time.Time) {
	header := []string{"NODE", "STATE", "CLIENTS", "STREAMS", "VERSION", "UPTIME", "SELF"}
	if wide {
		header = append(header, "PEER ADDRESS", "OWNED KEYS", "ERROR")
	}
	rows := [][]string{header}
	for _, n := range all.Nodes {
		self, clients, streams, up, owned := "", strconv.Itoa(n.Clients), strconv.Itoa(n.Streams), age(n.Since), strconv.Itoa(n.Keys.Owner)
		if n.Name == all.Self {
			self = "*"
		}
		switch n.State {
		case ops.NodeSilent, ops.NodeDisappeared:
			clients, streams, up, owned = "", "", "", ""
		}
		row := []string{n.Name, words(n.State), clients, streams, n.Version, up, self}
		if wide {
			row = append(row, all.Address(n.Name), owned, n.Error)
		}
		rows = append(rows, row)
	}
	WriteTable(w, rows)
	if len(all.Warnings) > 0 {
		writeText(w, "\n")
	}
	WriteWarnings(w, all.Warnings, now)
}

// WriteKeys writes the keys as a table, a line for each key and node.
func WriteKeys(w io.Writer, all ops.Keys, wide bool) {
	if len(all.Keys) == 0 {
		writeText(w, "no keys: no client has connected yet\n")
		return
	}
	WriteTable(w, keyRows(all.Keys, wide))
}

func keyRows(keys []ops.Key, wide bool) [][]string {
	header := []string{"KEY", "OWNER", "NODE", "STATE", "SINCE", "STREAMS", "RESOURCES"}
	if wide {
		header = append(header, "PEER STREAMS", "BYTES", "UPDATES", "CONTROL PLANE VERSION")
	}
	rows := [][]string{append(header, "NOTES")}
	for _, k := range keys {
		for _, n := range k.Nodes {
			row := []string{k.Key, k.Owner, n.Node, stateOfKey(n), age(n.Since), strconv.Itoa(n.Clients), strconv.Itoa(n.Resources)}
			if wide {
				row = append(row, strconv.Itoa(n.Peers), strconv.FormatInt(n.Bytes, 10), strconv.FormatUint(n.Updates, 10), VersionsText(n.Versions))
			}
			rows = append(rows, append(row, NotesOfKey(n)))
		}
	}
	return rows
}

// VersionsText shows versions by type: only the version if all types have the same.
func VersionsText(of map[string]string) string {
	types := slices.Sorted(maps.Keys(of))
	if len(types) == 0 {
		return ""
	}
	same := true
	all := make([]string, len(types))
	for i, name := range types {
		all[i] = name + " " + of[name]
		same = same && of[name] == of[types[0]]
	}
	if same {
		return of[types[0]]
	}
	return strings.Join(all, ", ")
}

// stateOfKey says where a node gets a key from.
func stateOfKey(n ops.NodeKey) string {
	switch {
	case n.From == "":
	case n.State == "follower":
		return "follower of " + n.From
	case n.State == "fallback":
		return "fallback, owner " + n.From + " unreachable"
	}
	return words(n.State)
}

// words returns a state, which is an identifier in JSON, as words for tables.
func words(state string) string { return strings.ReplaceAll(state, "_", " ") }

// NotesOfKey is what an operator should look at.
func NotesOfKey(n ops.NodeKey) string {
	var all []string
	switch {
	case n.HeldRemovals == 1:
		all = append(all, "1 held removal")
	case n.HeldRemovals > 1:
		all = append(all, strconv.Itoa(n.HeldRemovals)+" held removals")
	}
	if n.Stale {
		all = append(all, "last known good, unconfirmed")
	}
	if n.State != "idle" && !n.Connected {
		word := "no upstream stream"
		if n.Error == "" {
			word = "connecting"
		}
		all = append(all, word)
	}
	if n.Error != "" {
		all = append(all, n.Error)
	}
	return strings.Join(all, "; ")
}

// writeKey shows one key with its owner.
func writeKey(w http.ResponseWriter, k ops.Key, silent []ops.Silent) {
	owner := k.Owner
	if owner == "" {
		owner = "none: all nodes are draining"
	}
	writeText(w, "owner: "+Printable(owner)+"\n")
	if len(k.Nodes) == 0 {
		writeText(w, "no node has the key: no client with it is connected\n")
	} else {
		writeText(w, "\n")
		rows := keyRows([]ops.Key{k}, false)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 0, 2)
		}
		table(w, rows)
		below(w, silent)
	}
	writeText(w, silentText(silent))
}

// mostNear limits how many similar keys the answer about an unknown key suggests.
const mostNear = 3

// unknownKey says that no node has a key, and suggests keys that contain it: features of a client,
// such as those of all gRPC clients, become a part of its key.
func (t Tier) unknownKey(ctx context.Context, key string, silent []ops.Silent) string {
	text := "no node has the key " + strconv.Quote(key)
	var near []string
	for _, k := range t.Model.Keys(ctx, ops.KeyQuery{Search: key, Limit: mostNear}).Keys {
		near = append(near, strconv.Quote(k.Key))
	}
	if len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	} else {
		text += ";"
	}
	return text + " 'xdsrelay keys' lists the keys\n" + silentText(silent)
}

// below separates the lines about silent nodes from a table.
func below(w http.ResponseWriter, silent []ops.Silent) {
	if len(silent) > 0 {
		writeText(w, "\n")
	}
}

// silentText has a line for each node that did not answer.
func silentText(silent []ops.Silent) string {
	var b strings.Builder
	for _, s := range silent {
		b.WriteString("node " + Printable(s.Node) + " did not answer: " + Printable(s.Error) + "\n")
	}
	return b.String()
}
