package ops

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/tier"
)

// Keys are the keys of a tier, sorted.
type Keys struct {
	Keys []Key `json:"keys"`
	// Next is what asks for those behind, where not all were asked for; empty at the end.
	Next string `json:"next,omitempty"`
	// Total is how many keys the query selects, if it has an order, states or an owner.
	Total int `json:"total,omitempty"`
	// Silent are the nodes that did not answer.
	Silent []Silent `json:"silent"`
}

// Key is one key, on all nodes that have it.
type Key struct {
	Key string `json:"key"`
	// Owner is the node that should have the stream to the origin; empty if there is
	// none.
	Owner string    `json:"owner"`
	Nodes []NodeKey `json:"nodes"`
}

// NodeKey is a key on one node.
type NodeKey struct {
	Key  string `json:"key"`
	Node string `json:"node"`
	// State is the source of the key for the node: owner, follower of From, fallback because From
	// is unreachable, for_peers that consider the node the owner, or idle.
	State string    `json:"state"`
	From  string    `json:"from,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Clients and Peers are the streams of clients and of other nodes.
	Clients   int    `json:"clients"`
	Peers     int    `json:"peers"`
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`
	Resources int    `json:"resources"`
	Bytes     int64  `json:"bytes"`
	// HeldRemovals is how many resources are served although an origin removed them
	// (K16); Stale says that something is served that was kept from an earlier life of
	// the tier, and that the origin has not confirmed (K14).
	HeldRemovals int  `json:"held_removals"`
	Stale        bool `json:"stale"`
	// Versions are the control plane's own versions of the newest updates, by short name of the type.
	Versions map[string]string `json:"control_plane_versions,omitempty"`
	// States counts the clients by how they stand; Updates how often an origin, or the
	// node in From, has said something, and Changes how many resources changed so.
	States  Count  `json:"states"`
	Updates uint64 `json:"updates"`
	Changes uint64 `json:"changes"`
}

// Keys returns keys of all nodes that answer. Its Silent are the others.
func (f *Model) Keys(ctx context.Context, q KeyQuery) Keys {
	answers, silent := AskAll[[]NodeKey](ctx, f.nodes, askKeys, q.Values(), nil)
	rows := slices.Concat(answers...)
	wants := q
	if q.whole() {
		wants.After = ""
	}
	rows = slices.DeleteFunc(rows, func(row NodeKey) bool { return !wants.Wants(row.Key) }) // from a node of an older version
	slices.SortStableFunc(rows, func(a, b NodeKey) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Node, b.Node))
	})
	all := Keys{Keys: []Key{}, Silent: silent}
	for _, row := range rows {
		if last := len(all.Keys) - 1; last < 0 || all.Keys[last].Key != row.Key {
			all.Keys = append(all.Keys, Key{Key: row.Key, Owner: f.nodes.Owner(row.Key)})
		}
		one := &all.Keys[len(all.Keys)-1]
		one.Nodes = append(one.Nodes, row)
	}
	if q.whole() {
		return q.sorted(all)
	}
	return q.Page(all)
}

// keys returns the keys that this node has.
func (l Local) keys(q KeyQuery) []NodeKey {
	places := l.Places()
	rows, states := []NodeKey{}, l.countByKey()
	for _, g := range l.GroupInfos() {
		if !q.Wants(g.Key) {
			continue
		}
		row := NodeKey{
			Key: g.Key, Node: l.Node, State: "owner", Since: g.Since, Clients: g.Clients, Peers: g.Peers, Connected: g.Connected,
			Error: g.Error, Bytes: g.Bytes, HeldRemovals: g.HeldRemovals, Stale: g.Stale, States: states[g.Key],
		}
		for _, t := range g.Tables {
			row.Resources += t.Resources
			row.Updates += t.Updates
			row.Changes += t.Changes
			if t.ControlPlaneVersion != "" {
				if row.Versions == nil {
					row.Versions = make(map[string]string, len(g.Tables))
				}
				row.Versions[ShortName(t.TypeURL)] = t.ControlPlaneVersion
			}
		}
		if place, ok := places[g.Key]; ok {
			row.State, row.From, row.Since = string(place.State), place.Owner, place.Since
		}
		if g.Idle {
			row.State, row.From = "idle", ""
		}
		rows = append(rows, row)
	}
	return rows
}

// KeySums counts the keys of this node.
func (l Local) KeySums() (sums KeySums) {
	places := l.Places()
	for _, g := range l.GroupInfos() {
		switch state := places[g.Key].State; {
		case g.Idle:
			sums.Idle++
		case state == tier.Follower:
			sums.Follower++
			if sums.Followed == nil {
				sums.Followed = make(map[string]int)
			}
			sums.Followed[places[g.Key].Owner]++
		case state == tier.Alone:
			sums.Fallback++
		case state == tier.ForPeers:
			sums.ForPeers++
		default:
			sums.Owner++
		}
		if since, down := g.Down(); down {
			if sums.Down++; sums.Down == 1 || since.Before(sums.DownSince) {
				sums.DownSince, sums.DownError = since, g.Error
			}
		}
		if g.Stale {
			sums.Stale++
		}
		if !g.BehindSince.IsZero() {
			if sums.Behind++; sums.Behind == 1 || g.BehindSince.Before(sums.BehindSince) {
				sums.BehindKey, sums.BehindSince = g.Key, g.BehindSince
			}
		}
		if g.Empty() != "" {
			sums.Empty++
		}
		if g.HeldRemovals > 0 {
			sums.Held++
		}
	}
	return sums
}
