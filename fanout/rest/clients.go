package rest

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"weak"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
)

// Clients returns the clients that polled recently, in no order.
func (s *Server) Clients() []fanout.Client { return s.registry.clients(time.Now()) }

// Streams describes these clients as if they had streams.
func (s *Server) Streams() []fanout.StreamInfo {
	clients := s.Clients()
	out := make([]fanout.StreamInfo, 0, len(clients))
	for _, c := range clients {
		out = append(out, c.Info())
	}
	return out
}

// Key returns the aggregation key of the client's polls.
func (p *pollClient) Key() string { return string(p.key) }

// ID returns the client's node id.
func (p *pollClient) ID() string { return p.id }

// Peer returns the host that the client connects from.
func (p *pollClient) Peer() string { return p.host }

// Node returns the Node of the last poll.
func (p *pollClient) Node() *corev3.Node {
	p.registry.mu.Lock()
	node, cluster := p.node, p.cluster
	p.registry.mu.Unlock()
	return fanout.KeptNode(node, p.id, cluster)
}

// Rule decides about the client's next poll. Its certificate is not kept.
func (p *pollClient) Rule(rules *aggregation.Rules, policy *authorize.Policy) fanout.Ruling {
	p.registry.mu.Lock()
	kept := fanout.Kept{Node: p.node, Set: p.fields}
	p.registry.mu.Unlock()
	r := kept.Rule(rules, policy)
	r.Polls, r.Identity, r.Changes = true, p.identity, r.Kind == fanout.GetsKey && r.Key != string(p.key)
	return r
}

// Rollout is nil: clients that poll are never canaries.
func (p *pollClient) Rollout() *fanout.ClientRollout { return nil }

// Info describes the client, with its state for each type that it polls for.
func (p *pollClient) Info() fanout.StreamInfo {
	p.registry.mu.Lock()
	i := fanout.StreamInfo{
		Peer: p.host, NodeID: p.id, Cluster: p.cluster, Key: string(p.key), Rule: p.rule, Variant: fanout.PollVariant, Since: p.since, Polled: p.since,
		Types: []fanout.TypeInfo{},
	}
	p.registry.mu.Unlock()
	for _, all := range p.compare("", false) {
		i.Types = append(i.Types, typeInfo(all))
		for _, v := range all {
			if v.polled.After(i.Polled) {
				i.Polled = v.polled
			}
		}
	}
	return i
}

// compare compares the client with the current content, type by type in the order E1. url selects
// one type; empty means all.
func (p *pollClient) compare(url string, closely bool) [][]compared {
	var out [][]compared
	for _, v := range p.statesOf(url) {
		c := v.compare(p.registry.cache, closely)
		if last := len(out) - 1; last >= 0 && out[last][0].typ == v.typ {
			out[last] = append(out[last], c)
			continue
		}
		out = append(out, []compared{c})
	}
	return out
}

// statesOf returns the polls, type by type in the order E1. url selects one type; empty means all.
func (p *pollClient) statesOf(url string) []pollState {
	p.registry.mu.Lock()
	all := make([]pollState, 0, len(p.states))
	for _, v := range p.states {
		if url == "" || url == v.typ.URL {
			all = append(all, *v)
		}
	}
	p.registry.mu.Unlock()
	slices.SortFunc(all, func(a, b pollState) int {
		return cmp.Or(cmp.Compare(a.typ.Order, b.typ.Order), strings.Compare(a.typ.URL, b.typ.URL), strings.Compare(a.names, b.names))
	})
	return all
}

// severity orders states: the worst state among the polls for a type counts.
var severity = map[fanout.State]int{fanout.Synced: 1, fanout.NotSent: 2, fanout.Unknown: 3, fanout.Stale: 4, fanout.Nacked: 5}

// typeInfo merges the polls for one type. Versions and generations are those of the worst one.
func typeInfo(all []compared) fanout.TypeInfo {
	worst := slices.MaxFunc(all, func(a, b compared) int {
		return cmp.Or(cmp.Compare(severity[a.state], severity[b.state]), a.sentAt.Compare(b.sentAt))
	})
	i := fanout.TypeInfo{
		TypeURL: worst.typ.URL, State: worst.state, Since: worst.since, Sent: worst.place.Sent, Acked: worst.place.Acked, Head: worst.now.Gen,
		Version: worst.place.Version, SentAt: worst.sentAt, Has: redact.Text(worst.has), UnackedRepeats: worst.unackedRepeats,
	}
	for _, v := range all {
		i.Wildcard = i.Wildcard || v.wildcard
		i.Names += v.asked
		if v.place.Sub != nil {
			i.Missing += v.place.Sub.Missing()
		}
		i.Acks += v.acks
		i.Nacks += v.nacks
		if v.nack != nil && (i.LastNack == nil || v.nack.At.After(i.LastNack.At)) {
			i.LastNack = v.nack
		}
		switch later := v.since.After(i.Since); {
		case v.state != i.State:
		case (v.state == fanout.Synced) == later:
			i.Since = v.since // SYNCED since the last poll state became so; other states since the first did
		}
	}
	return i
}

// Resources yields each resource that the client polls for once.
func (p *pollClient) Resources(yield func(fanout.ResourceStatus) bool) {
	for _, all := range p.compare("", true) {
		sentVersion := make(map[string]struct{})
		for i := range all {
			more := !all[i].there || all[i].place.Resources(func(r fanout.ResourceStatus) bool {
				if _, again := sentVersion[r.Name]; again {
					return true
				}
				sentVersion[r.Name] = struct{}{}
				return yield(r)
			})
			if !more {
				return
			}
		}
	}
}

// Holdings compares by the newest version that the client quoted.
func (p *pollClient) Holdings() []fanout.TypeDiff {
	var out []fanout.TypeDiff
	for _, all := range p.compare("", true) {
		h := fanout.TypeDiff{Type: all[0].typ, State: typeInfo(all).State}
		for i := range all {
			if h.State == fanout.Unknown || !all[i].there {
				continue
			}
			same, lacks := all[i].place.Lacks()
			for k := range lacks {
				lacks[k].Maybe = lacks[k].Maybe || all[i].positionUnknown && !lacks[k].Was
			}
			h.Same += same
			h.Lacks = append(h.Lacks, lacks...)
		}
		out = append(out, h)
	}
	return out
}

// Find yields the status with resources that the client polls for. Of a resource in several polls, it yields
// that of each.
func (p *pollClient) Find(want func(*cache.Table) []string, yield func(*fanout.FoundResource) bool) {
	for _, v := range p.statesOf("") {
		t := p.registry.cache.Find(p.key, v.typ)
		if t == nil {
			continue
		}
		names := want(t)
		if len(names) == 0 {
			continue
		}
		c := v.compare(p.registry.cache, true)
		if !c.there || c.place.Sub == nil {
			continue
		}
		f := fanout.FoundResource{Table: t, Since: c.since}
		switch f.State = c.state; {
		case c.positionUnknown:
			f.State = fanout.Unknown
		case c.state == fanout.Stale && c.unackedRepeats > 0:
			f.Waiting = "polls with another version"
		case c.state == fanout.Stale:
			f.Waiting = "awaiting the next poll"
		}
		if !c.place.Find(names, f, yield) {
			return
		}
	}
}

// Reach returns the state of the worst poll for the table's type.
func (p *pollClient) Reach(t *cache.Table, u cache.UpdateRef) (state fanout.State, at time.Time, ok bool) {
	if p.since.After(u.At) {
		return "", time.Time{}, false
	}
	for _, all := range p.compare(t.Type.URL, true) {
		for i := range all {
			v := &all[i]
			if !v.same || v.table != weak.Make(t) || v.began.After(u.At) || !v.place.Sub.Met(u.Number) {
				continue
			}
			reached := v.reached(u)
			switch {
			case !ok || reachOrder[reached] > reachOrder[state]:
				state, at = reached, v.since
			case reached == state && v.since.After(at):
				at = v.since
			}
			ok = true
		}
	}
	return state, at, ok
}

// reached returns how far an update of the polled resources has reached the client.
func (c *compared) reached(u cache.UpdateRef) fanout.State {
	switch {
	case c.place.Acked >= u.Gen:
		return fanout.Synced
	case c.place.Sent < u.Gen:
		return fanout.NotSent
	case c.place.Rejected:
		return fanout.Nacked
	}
	return fanout.Stale
}

// reachOrder is severity for an update: worst is rejected, then not sent.
var reachOrder = map[fanout.State]int{fanout.Synced: 1, fanout.Stale: 2, fanout.NotSent: 3, fanout.Nacked: 4}
