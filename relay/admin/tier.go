package admin

import (
	"context"
	"net/http"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
)

// Tier is what there is to see of all nodes together, and to do. All functions are
// required and called concurrently.
type Tier struct {
	// Members are the nodes, and Own is how this one is.
	Members func() ops.Members
	Own     func() ops.NodeState
	// Model is the state of all nodes.
	Model *ops.Model
	// Nodes asks all nodes how they are, and Series for the samples that they kept after
	// a moment, in seconds of Unix time.
	Nodes  func(ctx context.Context) ([]ops.NodeState, []ops.Silent)
	Series func(ctx context.Context, since int64) ([]series.Part, []ops.Silent)
	// Explain works out the key of a client by the node's rules, as [ops.Keys] shows it;
	// peer may be empty. The error is about what was sent.
	Explain func(ctx context.Context, node, peer []byte) (Explained, error)
	// Release does the removals of a key that are held back, on all nodes.
	Release func(ctx context.Context, key string) (Released, error)
	// Rollout is about what clients see of what control planes send.
	Rollout ops.ShowRollout
	// Drain makes the node end. The error says why it does not.
	Drain func() (Draining, error)
}

// NodesNow are the members with how all nodes are, and what is wrong with them.
type NodesNow struct {
	ops.Members

	Nodes    []ops.LiveNode `json:"nodes"`
	Warnings []ops.Warning  `json:"warnings"`
}

// nodes shows the nodes.
func (v *watcher) nodes(w http.ResponseWriter, r *http.Request) {
	live, all := v.observe(r.Context())
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, NodesNow{all, live.Nodes, live.Warnings})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	WriteNodes(w, NodesNow{all, live.Nodes, live.Warnings}, true, time.Now())
}

// keys shows the keys of all nodes.
func (t Tier) keys(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ops.ParamKey)
	all := t.Model.Keys(r.Context(), ops.KeyQuery{Key: key})
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
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	WriteKeys(w, all, true)
	if len(all.Keys) > 0 {
		below(w, all.Silent)
	}
	writeText(w, silentText(all.Silent))
}

// owner shows which node owns a key, even if no node has the key.
func (t Tier) owner(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get(ops.ParamKey)
	if key == "" {
		http.Error(w, "the parameter key is missing: expected ?key=KEY", http.StatusBadRequest)
		return
	}
	all := t.Model.Keys(r.Context(), ops.KeyQuery{Key: key})
	one := ops.Key{Key: key, Owner: t.Members().Owner(key), Nodes: []ops.NodeKey{}}
	if len(all.Keys) > 0 {
		one = all.Keys[0]
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, Explained{Key: &one, Silent: all.Silent})
		return
	}
	writeKey(w, one, all.Silent)
}

// Explained says which key a client gets, and what becomes of it.
type Explained struct {
	// Rules is the explanation, a table for people with its String and an object with
	// its JSON.
	Rules interface{ String() string } `json:"rules"`
	// Refused says that the client gets no key.
	Refused bool     `json:"refused"`
	Key     *ops.Key `json:"key,omitempty"`
	// Silent are the nodes that did not answer.
	Silent []ops.Silent `json:"silent,omitempty"`
}

// Released is how many removals were done that had been held back.
type Released struct {
	Key      string       `json:"key"`
	Removals int          `json:"removals"`
	Silent   []ops.Silent `json:"silent"`
}

// Draining is what a node that is about to end has to do.
type Draining struct {
	Node    string `json:"node"`
	Clients int    `json:"clients"`
	// Over is the time over which clients are sent away, in seconds.
	Over float64 `json:"over_seconds"`
}
