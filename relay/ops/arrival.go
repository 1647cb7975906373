package ops

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/tier"
)

// Arrival says how far the updates with one version of the control plane have come: to which
// clients, for all types that had an update with it. A client that has something newer has it, too.
type Arrival struct {
	Version string       `json:"version"`
	State   ArrivalState `json:"state"`
	// Keys is the number of keys with an update of this version, Clients that of the clients of these
	// keys that match, and Reached of those of them that acknowledged it, or need not.
	Keys    int `json:"keys"`
	Clients int `json:"clients"`
	Reached int `json:"reached"`
	// Types counts the clients by the types that had an update.
	Types []ArrivalType `json:"types"`
	// Behind are the first clients, by name, that have not acknowledged it.
	Behind []ArrivalClient `json:"behind"`
	// Nodes are nodes that have not got it from the owner of a key.
	Nodes []ArrivalNode `json:"nodes"`
	// Without are the first keys with clients, and without an update of this version; KeysWithout is
	// their number.
	Without     []string `json:"without"`
	KeysWithout int      `json:"keys_without"`
	Silent      []Silent `json:"silent"`
}

// ArrivalState summarizes an [Arrival].
type ArrivalState string

// The states of a version.
const (
	VersionUnknown ArrivalState = "unknown" // no update with it has arrived, or it is no longer remembered
	VersionWaiting ArrivalState = "waiting" // something is missing
	VersionReached ArrivalState = "reached" // all clients that match have it
)

// ArrivalType counts clients of a type.
type ArrivalType struct {
	URL     string `json:"type_url"`
	Name    string `json:"type"`
	Clients int    `json:"clients"`
	Reached int    `json:"reached"`
	Nacked  int    `json:"nacked"`
}

// ArrivalClient is a client that has not acknowledged an update.
type ArrivalClient struct {
	Name  string `json:"name"`
	Key   string `json:"key"`
	Node  string `json:"node"`
	Type  string `json:"type"`
	State State  `json:"state"`
	// Waiting is the reason; see [Type.Waiting].
	Waiting string `json:"waiting,omitempty"`
}

// ArrivalNode is a node that has not got an update from the owner of a key.
type ArrivalNode struct {
	Node string `json:"node"`
	Key  string `json:"key"`
	// Why is the type that it has not acknowledged, or why it cannot get it.
	Why string `json:"why"`
}

// Bounds of an answer.
const (
	mostBehind      = 100
	mostKeysWithout = 100
)

// arrivalPart is the part of one node.
type arrivalPart struct {
	Arrival

	Node string `json:"node"`
	// With are the keys that have an update here, Elsewhere those with clients and without one: their
	// owner may have had one that does not concern this node. Detached says why this node cannot know.
	With      []string          `json:"with"`
	Elsewhere []string          `json:"elsewhere"`
	Detached  map[string]string `json:"detached,omitempty"`
	// Others is the number of clients of the keys in Elsewhere.
	Others map[string]int `json:"others,omitempty"`
}

// targets are, by key and type URL, the generations that have the content of a version.
type targets map[string]map[string]uint64

func (l Local) targetsOf(version string, q *Query) (targets, map[string]*cache.Group) {
	found, groups := make(targets), make(map[string]*cache.Group)
	for _, g := range l.Groups() {
		key := string(g.Key)
		if q.Key != "" && q.Key != key {
			continue
		}
		groups[key] = g
		for _, t := range g.Tables() {
			gen, ok := t.VersionReached(version)
			if !ok || q.Type != "" && q.Type != t.Type.URL {
				continue
			}
			if found[key] == nil {
				found[key] = make(map[string]uint64)
			}
			found[key][t.Type.URL] = gen
		}
	}
	return found, groups
}

// ArrivalParams are the parameters with which a version and the clients that count are selected.
func ArrivalParams() []string {
	return []string{ParamVersion, paramName, ParamKey, paramNode, paramType}
}

// arrival is the part of this node.
func (l Local) arrival(version string, q Query) *arrivalPart {
	found, groups := l.targetsOf(version, &q)
	p := &arrivalPart{Arrival: Arrival{Version: version}, Node: l.Node, With: slices.Sorted(maps.Keys(found)), Detached: make(map[string]string), Others: make(map[string]int)}
	types := make(map[string]*ArrivalType)
	streams := l.find(q)
	for len(streams) > 0 {
		n := sameClient(streams)
		p.addClient(l.Node, streams[:n], found, types, &q)
		streams = streams[n:]
	}
	places := l.Places()
	for key := range p.Others {
		p.Elsewhere = append(p.Elsewhere, key)
		switch place := places[key]; {
		case place.State == tier.Alone || place.State == tier.ForPeers:
			p.Detached[key] = "it asks the control plane itself, and had no update with the version"
		case place.State == tier.Follower && groups[key] != nil && !groups[key].Upstream().Connected:
			p.Detached[key] = "it has no stream to node " + place.Owner + ", the owner"
		}
	}
	slices.Sort(p.Elsewhere)
	for _, s := range l.Peers() {
		for url, gen := range found[s.Key] {
			for _, t := range s.Types {
				if t.TypeURL == url && !has(&t, gen) {
					p.Nodes = append(p.Nodes, ArrivalNode{Node: s.Relay, Key: s.Key, Why: "awaiting ACK of " + ShortName(url)})
				}
			}
		}
	}
	for _, url := range slices.Sorted(maps.Keys(types)) {
		p.Types = append(p.Types, *types[url])
	}
	return p
}

// has reports whether a client that subscribes to a type has its content of a generation.
func has(t *fanout.TypeInfo, gen uint64) bool { return t.Acked >= gen || t.State == Synced }

// addClient adds a client with its streams.
func (p *arrivalPart) addClient(node string, streams []fanout.Client, found targets, types map[string]*ArrivalType, q *Query) {
	key := streams[0].Key()
	gens := found[key]
	if gens == nil {
		p.Others[key]++
		return
	}
	p.Clients++
	reached := true
	for _, s := range streams {
		info := s.Info()
		for i := range info.Types {
			t := &info.Types[i]
			gen, concerns := gens[t.TypeURL]
			if !concerns || t.Private || t.Names == 0 && !t.Wildcard {
				continue
			}
			sum := types[t.TypeURL]
			if sum == nil {
				sum = &ArrivalType{URL: t.TypeURL, Name: ShortName(t.TypeURL)}
				types[t.TypeURL] = sum
			}
			if sum.Clients++; has(t, gen) {
				sum.Reached++
				continue
			}
			if t.State == Nacked {
				sum.Nacked++
			}
			reached = false
			if len(p.Behind) < mostBehind {
				one := typeOf(*t)
				p.Behind = append(p.Behind, ArrivalClient{Name: info.NodeID, Key: key, Node: node, Type: one.Name, State: t.State, Waiting: one.Waiting})
			}
		}
	}
	if reached {
		p.Reached++
	}
}

// Arrival says how far a version of the control plane has come to the clients that match a query, of
// which the name, key, node and type count.
func (f *Model) Arrival(ctx context.Context, version string, q Query) Arrival {
	a := f.arrivalOnce(ctx, version, q)
	if a.State == VersionReached {
		// A node that had not got the version yet may have answered before the owner did. Now that
		// the owner knows that all nodes have it, they are asked again.
		a = f.arrivalOnce(ctx, version, q)
	}
	return a
}

func (f *Model) arrivalOnce(ctx context.Context, version string, q Query) Arrival {
	v := q.values()
	v.Set(ParamVersion, version)
	parts, silent := AskAll[*arrivalPart](ctx, f.nodes, askArrival, v, nil)
	parts = slices.DeleteFunc(parts, func(p *arrivalPart) bool { return p == nil })
	out := Arrival{Version: version, Types: []ArrivalType{}, Behind: []ArrivalClient{}, Nodes: []ArrivalNode{}, Without: []string{}, Silent: silent}
	with := make(map[string]bool)
	for _, p := range parts {
		for _, key := range p.With {
			with[key] = true
		}
	}
	out.Keys = len(with)
	without, types := make(map[string]bool), make(map[string]*ArrivalType)
	for _, p := range parts {
		if q.Node == "" || q.Node == p.Node {
			out.add(p, with, without, types)
		}
		out.Nodes = append(out.Nodes, slices.DeleteFunc(p.Nodes, func(n ArrivalNode) bool { return q.Node != "" && q.Node != n.Node })...)
	}
	for _, url := range slices.Sorted(maps.Keys(types)) {
		out.Types = append(out.Types, *types[url])
	}
	slices.SortFunc(out.Behind, func(a, b ArrivalClient) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Type, b.Type))
	})
	out.Behind = out.Behind[:min(len(out.Behind), mostBehind)]
	slices.SortFunc(out.Nodes, func(a, b ArrivalNode) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Key, b.Key)) })
	out.Nodes = out.Nodes[:min(len(out.Nodes), mostBehind)]
	out.KeysWithout = len(without)
	out.Without = slices.Sorted(maps.Keys(without))
	out.Without = out.Without[:min(len(out.Without), mostKeysWithout)]
	if out.Without == nil {
		out.Without = []string{}
	}
	switch {
	case out.Keys == 0:
		out.State = VersionUnknown
	case out.Clients == 0 || out.Reached < out.Clients || out.KeysWithout > 0 || len(out.Nodes) > 0 || len(silent) > 0:
		out.State = VersionWaiting
	default:
		out.State = VersionReached
	}
	return out
}

// add adds the part of a node. with are the keys that some node has an update of.
func (a *Arrival) add(p *arrivalPart, with, without map[string]bool, types map[string]*ArrivalType) {
	a.Clients += p.Clients
	a.Reached += p.Reached
	a.Behind = append(a.Behind, p.Behind...)
	for _, key := range p.Elsewhere {
		switch why := p.Detached[key]; {
		case !with[key]:
			without[key] = true
		case why != "":
			a.Clients += p.Others[key]
			a.Nodes = append(a.Nodes, ArrivalNode{Node: p.Node, Key: key, Why: why})
		default: // the update does not concern the node, or its owner lists it
			a.Clients += p.Others[key]
			a.Reached += p.Others[key]
		}
	}
	for _, t := range p.Types {
		if types[t.URL] == nil {
			types[t.URL] = &ArrivalType{URL: t.URL, Name: t.Name}
		}
		sum := types[t.URL]
		sum.Clients, sum.Reached, sum.Nacked = sum.Clients+t.Clients, sum.Reached+t.Reached, sum.Nacked+t.Nacked
	}
}
