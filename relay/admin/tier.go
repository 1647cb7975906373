package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"xdsrelay/relay/fleet"
	"xdsrelay/relay/series"
	"xdsrelay/relay/terms"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// Tier is what there is to see of all nodes together, and to do. All functions are
// required and called concurrently.
type Tier struct {
	// Members are the nodes, and Own is how this one is.
	Members func() Members
	Own     func() NodeState
	// Fleet are the clients of all nodes.
	Fleet *fleet.Fleet
	// Keys asks all nodes for their keys.
	Keys func(ctx context.Context, q KeyQuery) Keys
	// Nodes asks all nodes how they are, and Series for the samples that they kept after
	// a moment, in seconds of Unix time.
	Nodes  func(ctx context.Context) ([]NodeState, []Silent)
	Series func(ctx context.Context, since int64) ([]series.Part, []Silent)
	// Explain works out the key of a client by the node's rules, as [Keys] shows it;
	// peer may be empty. The error is about what was sent.
	Explain func(ctx context.Context, node, peer []byte) (Explained, error)
	// Release does the removals of a key that are held back, on all nodes.
	Release func(ctx context.Context, key string) (Released, error)
	// Drain makes the node end. The error says why it does not.
	Drain func() (Draining, error)
}

// Members are the nodes of a tier as one of them knows them.
type Members struct {
	Self string `json:"self"`
	// Heard is when that was last known to be true.
	Heard   time.Time      `json:"heard"`
	Members []shard.Member `json:"members"`
	// Strays are nodes that answer although they are no members, as one does that cannot
	// reach Redis; see [fleet.Strays].
	Strays []shard.Member `json:"strays,omitempty"`
	// Silent are members that did not answer when they were asked last, for whatever.
	Silent []Silent `json:"silent,omitempty"`
	// Missing are nodes that should be there and do not answer.
	Missing []fleet.Missing `json:"missing,omitempty"`
	// Differences are the nodes that differ from others in what all must have in common.
	Differences []terms.Difference `json:"differences,omitempty"`
	// Clocks are the nodes whose clocks differ from those of the others.
	Clocks []fleet.Skew `json:"clocks,omitempty"`
	// Redis is how the tier's Redis is, as far as the node knows; nil if there is none.
	Redis *store.State `json:"redis,omitempty"`
}

// Keys are the keys of a tier, sorted.
type Keys struct {
	Keys []Key `json:"keys"`
	// Next is what asks for those behind, where not all were asked for; empty at the end.
	Next string `json:"next,omitempty"`
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
	// State is from where the node gets it: as the owner, as a follower of From, alone
	// since From cannot be asked, for peers that take it for the owner, or idle.
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
	// States counts the clients by how they stand; Updates how often an origin, or the
	// node in From, has said something, and Changes how many resources changed so.
	States  fleet.Count `json:"states"`
	Updates uint64      `json:"updates"`
	Changes uint64      `json:"changes"`
}

// Silent is a node that did not answer, and why.
type Silent = fleet.Silent

// Explained says which key a client gets, and what becomes of it.
type Explained struct {
	// Rules is the explanation, a table for people with its String and an object with
	// its JSON.
	Rules interface{ String() string } `json:"rules"`
	// Refused says that the client gets no key.
	Refused bool `json:"refused"`
	Key     *Key `json:"key,omitempty"`
	// Silent are the nodes that did not answer.
	Silent []Silent `json:"silent,omitempty"`
}

// Released is how many removals were done that had been held back.
type Released struct {
	Key      string   `json:"key"`
	Removals int      `json:"removals"`
	Silent   []Silent `json:"silent"`
}

// Draining is what a node that is about to end has to do.
type Draining struct {
	Node    string `json:"node"`
	Clients int    `json:"clients"`
	// Over is the time over which clients are sent away, in seconds.
	Over float64 `json:"over_seconds"`
}

// ErrUnknownKey is returned where no node has a key.
var ErrUnknownKey = fleet.ErrUnknownKey

// states of nodes beside those of members.
const (
	stateSilent = "silent"
	stateApart  = "apart"
	stateGone   = "gone"
)

// NodesNow are the members with how all nodes are, and what is wrong with them.
type NodesNow struct {
	Members

	Nodes    []LiveNode `json:"nodes"`
	Warnings []Warning  `json:"warnings"`
}

// nodes shows the nodes.
func (v *watcher) nodes(w http.ResponseWriter, r *http.Request) {
	live, all := v.observe(r.Context())
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, NodesNow{all, live.Nodes, live.Warnings})
		return
	}
	rows := [][]string{{"NODE", "STATE", "STREAMS", "PEER ADDRESS", "VERSION", "UP FOR", "ASKED"}}
	for _, n := range live.Nodes {
		here, streams, up := "", strconv.Itoa(n.Streams), age(n.Since)
		if n.Name == all.Self {
			here = "this one"
		}
		switch n.State {
		case stateSilent, stateGone:
			streams, up = "", ""
		}
		rows = append(rows, []string{n.Name, n.State, streams, all.address(n.Name), n.Version, up, here})
	}
	table(w, rows)
	if len(live.Warnings) > 0 {
		writeText(w, "\n")
	}
	WriteWarnings(w, live.Warnings, time.Now())
}

// address is where other nodes reach one.
func (m Members) address(node string) string {
	for _, one := range m.everybody() {
		if one.Name == node {
			return one.Peer
		}
	}
	for _, one := range m.Missing {
		if one.Name == node {
			return one.Peer
		}
	}
	return ""
}

func memberState(m shard.Member) string {
	switch {
	case m.Draining:
		return "draining"
	case m.Cut:
		return "no origin"
	}
	return "ok"
}

// keys shows the keys of all nodes.
func (t Tier) keys(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ParamKey)
	all := t.Keys(r.Context(), KeyQuery{Key: key})
	status := http.StatusOK
	if key != "" && len(all.Keys) == 0 {
		status = http.StatusNotFound
	}
	if wantsJSON(r) {
		writeJSON(w, status, all)
		return
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
		writeText(w, t.unknownKey(r.Context(), key, all.Silent))
		return
	}
	if len(all.Keys) == 0 {
		writeText(w, "no keys: no client has come yet\n")
	} else {
		table(w, keyRows(all.Keys))
		below(w, all.Silent)
	}
	writeText(w, silentText(all.Silent))
}

// owner shows which node owns a key, whether anybody has it or not.
func (t Tier) owner(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ParamKey)
	if key == "" {
		http.Error(w, "the parameter key is missing: expected ?key=KEY", http.StatusBadRequest)
		return
	}
	all := t.Keys(r.Context(), KeyQuery{Key: key})
	one := Key{Key: key, Owner: t.Members().owner(key), Nodes: []NodeKey{}}
	if len(all.Keys) > 0 {
		one = all.Keys[0]
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, Explained{Key: &one, Silent: all.Silent})
		return
	}
	writeKey(w, one, all.Silent)
}

func (m Members) owner(key string) string {
	owner, _ := shard.NewView(m.Members).Owner(key)
	return owner.Name
}
