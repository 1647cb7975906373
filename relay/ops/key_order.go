package ops

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// KeySort is an order of keys.
type KeySort string

// The orders. In all of them, keys that are equal otherwise are by name.
const (
	KeysByName KeySort = "key"
	// KeysByState puts the keys first whose state is worst, and of these those with most clients.
	KeysByState   KeySort = "state"
	KeysByClients KeySort = "clients"
	KeysBySize    KeySort = "size"
	KeysByUpdates KeySort = "updates"
)

// KeySorts are all orders.
func KeySorts() []KeySort {
	return []KeySort{KeysByName, KeysByState, KeysByClients, KeysBySize, KeysByUpdates}
}

// KeyState is a state of a key that an operator may look for. A key may have several.
type KeyState string

// The states, the worst first.
const (
	KeyNacked       KeyState = "nacked"       // clients have rejected the newest version
	KeyDisconnected KeyState = "disconnected" // a node has no stream that it should have
	KeyFallback     KeyState = "fallback"     // a node cannot reach the owner
	KeyUnconfirmed  KeyState = "unconfirmed"  // it is served from last known good
	KeyHeld         KeyState = "held"         // removals are held back
	KeyStale        KeyState = "stale"        // clients do not have the newest version yet
	KeyIdle         KeyState = "idle"         // it has no clients
	KeyOK           KeyState = "ok"           // none of the others
)

// KeyStates are all states, the worst first.
func KeyStates() []KeyState {
	return []KeyState{KeyNacked, KeyDisconnected, KeyFallback, KeyUnconfirmed, KeyHeld, KeyStale, KeyIdle, KeyOK}
}

const paramOwner = "owner"

// parseOrder reads the order and the states.
func (q *KeyQuery) parseOrder(v url.Values) error {
	q.Owner, q.Sort = v.Get(paramOwner), KeySort(v.Get(paramSort))
	if q.Sort != "" && !slices.Contains(KeySorts(), q.Sort) {
		return fmt.Errorf("%s: got %q, expected key, state, clients, size or updates", paramSort, q.Sort)
	}
	if q.Sort == KeysByName {
		q.Sort = ""
	}
	if text := v.Get(paramState); text != "" {
		for word := range strings.SplitSeq(text, ",") {
			s := KeyState(strings.ToLower(strings.TrimSpace(word)))
			if !slices.Contains(KeyStates(), s) {
				return fmt.Errorf("%s: got %q, expected nacked, disconnected, fallback, unconfirmed, held, stale, idle or ok, separated by commas", paramState, word)
			}
			q.States = append(q.States, s)
		}
	}
	if q.Sort != "" && q.After != "" {
		q.after = &keyRank{}
		if err := readToken(q.After, q.after); err != nil || q.after.Sort != q.Sort {
			return fmt.Errorf("%s: expected next of the previous page", paramPage)
		}
		q.After = ""
	}
	return nil
}

// whole reports whether the answer needs all keys of all nodes.
func (q *KeyQuery) whole() bool { return q.Sort != "" || len(q.States) > 0 || q.Owner != "" }

// states returns all states of a key.
func (k *Key) states() (all []KeyState) {
	idle := true
	has := make(map[KeyState]bool)
	for i := range k.Nodes {
		n := &k.Nodes[i]
		has[KeyNacked] = has[KeyNacked] || n.States[Nacked] > 0
		has[KeyStale] = has[KeyStale] || n.States[Stale] > 0
		has[KeyFallback] = has[KeyFallback] || n.State == "fallback"
		has[KeyUnconfirmed] = has[KeyUnconfirmed] || n.Stale
		has[KeyHeld] = has[KeyHeld] || n.HeldRemovals > 0
		if n.State != "idle" {
			idle = false
			has[KeyDisconnected] = has[KeyDisconnected] || !n.Connected && n.Error != "" // without an error these are the first attempts
		}
	}
	has[KeyIdle] = idle
	for _, s := range KeyStates() {
		if has[s] {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		all = []KeyState{KeyOK}
	}
	return all
}

// selects reports whether a key of the tier is asked for.
func (q *KeyQuery) selects(k *Key) bool {
	return (q.Owner == "" || k.Owner == q.Owner) &&
		(len(q.States) == 0 || slices.ContainsFunc(k.states(), func(s KeyState) bool { return slices.Contains(q.States, s) }))
}

// keyRank is the place of a key in an order, and where a page ends.
type keyRank struct {
	Sort  KeySort `json:"o"`
	Group int     `json:"g,omitempty"`
	Count int64   `json:"c,omitempty"`
	Key   string  `json:"k"`
}

func (r keyRank) compare(o keyRank) int {
	return cmp.Or(cmp.Compare(r.Group, o.Group), cmp.Compare(o.Count, r.Count), strings.Compare(r.Key, o.Key))
}

func (q *KeyQuery) rank(k *Key) keyRank {
	r := keyRank{Sort: q.Sort, Key: k.Key}
	for i := range k.Nodes {
		n := &k.Nodes[i]
		switch q.Sort {
		case KeysByClients, KeysByState:
			r.Count += int64(n.Clients)
		case KeysBySize:
			r.Count = max(r.Count, n.Bytes)
		case KeysByUpdates:
			r.Count = max(r.Count, int64(n.Updates))
		}
	}
	if q.Sort == KeysByState {
		r.Group = slices.Index(KeyStates(), k.states()[0])
	}
	return r
}

// sorted cuts the keys of all nodes, which are by name, to a page in the order of the query. It
// counts all that the query selects.
func (q *KeyQuery) sorted(all Keys) Keys {
	type ranked struct {
		rank keyRank
		key  Key
	}
	rows, total := []ranked{}, 0
	for i := range all.Keys {
		if k := &all.Keys[i]; q.selects(k) {
			total++
			if r := q.rank(k); (q.after == nil || r.compare(*q.after) > 0) && (q.After == "" || k.Key > q.After) {
				rows = append(rows, ranked{r, *k})
			}
		}
	}
	slices.SortFunc(rows, func(a, b ranked) int { return a.rank.compare(b.rank) })
	out := Keys{Keys: []Key{}, Silent: all.Silent, Total: total}
	if q.Limit > 0 && len(rows) > q.Limit {
		rows = rows[:q.Limit]
		if last := rows[q.Limit-1]; q.Sort == "" {
			out.Next = last.key.Key
		} else {
			out.Next = token(last.rank)
		}
	}
	for _, row := range rows {
		out.Keys = append(out.Keys, row.key)
	}
	return out
}
