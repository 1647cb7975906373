package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"xdsrelay/relay/ops"
)

func keyRows(keys []ops.Key) [][]string {
	rows := [][]string{{"KEY", "OWNER", "NODE", "STATE", "FOR", "STREAMS", "PEERS", "RESOURCES", "BYTES", "NOTES"}}
	for _, k := range keys {
		owner := k.Owner
		for _, n := range k.Nodes {
			rows = append(rows, append([]string{k.Key, owner}, nodeRow(n)...))
		}
	}
	return rows
}

func nodeRow(n ops.NodeKey) []string {
	state := n.State
	switch {
	case n.From == "":
	case n.State == "follower":
		state += " of " + n.From
	case n.State == "alone":
		state += ", without " + n.From
	}
	return []string{n.Node, state, age(n.Since), strconv.Itoa(n.Clients), strconv.Itoa(n.Peers), strconv.Itoa(n.Resources), strconv.FormatInt(n.Bytes, 10), notes(n)}
}

// notes is what an operator should look at.
func notes(n ops.NodeKey) string {
	var all []string
	if n.HeldRemovals > 0 {
		all = append(all, strconv.Itoa(n.HeldRemovals)+" removals held")
	}
	if n.Stale {
		all = append(all, "stale")
	}
	if n.State != "idle" && !n.Connected {
		word := "no stream"
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
		writeText(w, "no node has it: no client of it has connected yet\n")
	} else {
		writeText(w, "\n")
		rows := keyRows([]ops.Key{k})
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 0, 2)
		}
		table(w, rows)
		below(w, silent)
	}
	writeText(w, silentText(silent))
}

// mostNear is how many keys are named that one which is not there may stand for.
const mostNear = 3

// unknownKey says that no node has a key, and names those that hold it: features of a
// client, such as all gRPC clients have, become a part of its key.
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

// below sets what is said of silent nodes apart from a table.
func below(w http.ResponseWriter, silent []ops.Silent) {
	if len(silent) > 0 {
		writeText(w, "\n")
	}
}

// silentText tells of nodes that did not answer.
func silentText(silent []ops.Silent) string {
	var b strings.Builder
	for _, s := range silent {
		b.WriteString("node " + Printable(s.Node) + " did not answer: " + Printable(s.Error) + "\n")
	}
	return b.String()
}
