package ops

import (
	"context"
	"errors"
	"net/url"

	"xdsrelay/relay/cache"
)

// ErrUnknownKey is returned where no node has a key.
var ErrUnknownKey = errors.New("no node has this key")

// History is what became of a key, on the nodes that have it.
type History struct {
	Key string `json:"key"`
	// Owner is the node that has the key's streams to the origin.
	Owner string        `json:"owner"`
	Nodes []NodeHistory `json:"nodes"`
	// Silent are the nodes that did not answer.
	Silent []Silent `json:"silent"`
}

// NodeHistory is what became of a key on a node.
type NodeHistory struct {
	Node  string        `json:"node"`
	Types []TypeHistory `json:"types"`
}

// Past summarizes a table after one update.
type Past = cache.Past

// TypeHistory are the newest updates of a type, the newest first.
type TypeHistory struct {
	URL      string       `json:"type_url"`
	Name     string       `json:"type"`
	Versions []cache.Past `json:"versions"`
}

// group returns the group of a key, nil if there is none.
func (l Local) group(key string) *cache.Group {
	for _, g := range l.Groups() {
		if string(g.Key) == key {
			return g
		}
	}
	return nil
}

// history tells what became of a key here; nil if it is not here.
func (l Local) history(key string) *NodeHistory {
	g := l.group(key)
	if g == nil {
		return nil
	}
	h := &NodeHistory{Node: l.Node, Types: []TypeHistory{}}
	for _, t := range g.Tables() {
		h.Types = append(h.Types, TypeHistory{URL: t.Type.URL, Name: ShortName(t.Type.URL), Versions: t.History()})
	}
	return h
}

// History tells what became of a key on all nodes.
func (f *Model) History(ctx context.Context, key string) (History, error) {
	answers, silent := AskAll[*NodeHistory](ctx, f.nodes, askHistory, url.Values{ParamKey: {key}}, nil)
	h := History{Key: key, Owner: f.nodes.Owner(key), Nodes: []NodeHistory{}, Silent: silent}
	for _, a := range answers {
		if a != nil {
			h.Nodes = append(h.Nodes, *a)
		}
	}
	if len(h.Nodes) == 0 {
		return h, ErrUnknownKey
	}
	return h, nil
}
