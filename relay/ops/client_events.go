package ops

import (
	"context"
	"net/url"
	"slices"
	"strconv"
)

// Bounds of the events in one answer.
const (
	usualClientEvents = 200
	mostEvents        = 5000
)

// ClientEvents are the newest events of the clients with one name, on all nodes.
type ClientEvents struct {
	// Name is the client's node id.
	Name string `json:"client"`
	// Events are ordered by time, the oldest first. The clocks of nodes may differ.
	Events []ClientEvent `json:"events"`
	// More says that there are older events, or further streams.
	More bool `json:"more,omitempty"`
	// Off are nodes that keep no events.
	Off []string `json:"off,omitempty"`
	// Names and Similar are other names, where no node has events of this one; see [Found].
	Names   []string `json:"names,omitempty"`
	Similar []string `json:"similar,omitempty"`
	// Silent are the nodes that did not answer: they may have further events.
	Silent []Silent `json:"silent"`
}

// EventsPart is the part of a node.
type EventsPart struct {
	Node   string        `json:"node"`
	Off    bool          `json:"off,omitempty"`
	Events []ClientEvent `json:"events"`
	More   bool          `json:"more,omitempty"`
}

// ClientEventParams are the parameters that [ParseClientEventQuery] reads.
func ClientEventParams() []string { return []string{paramName, paramLimit} }

// ParseClientEventQuery reads whose events are asked for, and how many at most.
func ParseClientEventQuery(v url.Values) (name string, limit int, err error) {
	limit, err = number(v, paramLimit, usualClientEvents, 1, mostEvents)
	return v.Get(paramName), limit, err
}

func (l Local) answerClientEvents(v url.Values) (any, error) {
	name, limit, err := ParseClientEventQuery(v)
	if err != nil {
		return nil, err
	}
	return l.clientEvents(name, limit), nil
}

// events are the newest events of clients with a name on this node.
func (l Local) clientEvents(name string, limit int) EventsPart {
	part := EventsPart{Node: l.Node, Events: []ClientEvent{}, Off: l.ClientEvents == nil}
	if part.Off {
		return part
	}
	streams, more := l.ClientEvents(name)
	part.More = more
	for i := range streams {
		part.Events = append(part.Events, eventsOf(l.Node, &streams[i])...)
	}
	part.Events = append(part.Events, l.pollEvents(name)...)
	part.Events, part.More = newestEvents(part.Events, limit, part.More)
	return part
}

// newestEvents orders events by time, and keeps the newest.
func newestEvents(all []ClientEvent, limit int, more bool) ([]ClientEvent, bool) {
	slices.SortStableFunc(all, func(a, b ClientEvent) int { return a.At.Compare(b.At) })
	if len(all) > limit {
		return all[len(all)-limit:], true
	}
	return all, more
}

// ClientEvents returns what became of the clients with a name, or of the only client whose name begins so.
func (f *Model) ClientEvents(ctx context.Context, name string, limit int) (ClientEvents, error) {
	all := f.eventsNamed(ctx, name, limit)
	if len(all.Events) > 0 {
		return all, nil
	}
	found, err := f.Find(ctx, name, 0)
	switch {
	case err != nil:
		return all, err
	case len(found.Clients) > 0 && found.Clients[0].Name != name:
		return f.eventsNamed(ctx, found.Clients[0].Name, limit), nil
	}
	all.Names, all.Similar = found.Names, found.Similar
	if len(found.Clients) > 0 {
		all.Names = []string{name} // it is connected, and has no events
	}
	return all, nil
}

func (f *Model) eventsNamed(ctx context.Context, name string, limit int) ClientEvents {
	v := url.Values{paramName: {name}, paramLimit: {strconv.Itoa(limit)}}
	parts, silent := AskAll[EventsPart](ctx, f.nodes, askClientEvents, v, nil)
	all := ClientEvents{Name: name, Events: []ClientEvent{}, Silent: silent}
	for _, p := range parts {
		all.Events, all.More = append(all.Events, p.Events...), all.More || p.More
		if p.Off {
			all.Off = append(all.Off, p.Node)
		}
	}
	all.Events, all.More = newestEvents(all.Events, limit, all.More)
	before := make(map[string]string) // by key
	for i := range all.Events {
		if e := &all.Events[i]; e.Event == EventConnected {
			if b := before[e.Key]; b != e.Node {
				e.Before = b
			}
			before[e.Key] = e.Node
		}
	}
	return all
}
