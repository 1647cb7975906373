package rest

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"weak"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
)

// Clients returns those who polled a short while ago, in no order.
func (s *Server) Clients() []fanout.Client { return s.roster.clients(time.Now()) }

// Streams describes them as if they had streams.
func (s *Server) Streams() []fanout.StreamInfo {
	clients := s.Clients()
	out := make([]fanout.StreamInfo, 0, len(clients))
	for _, c := range clients {
		out = append(out, c.Info())
	}
	return out
}

// Key, ID and Peer are those that the client's polls have in common.
func (p *visitor) Key() string { return string(p.key) }

// ID is the client's node id.
func (p *visitor) ID() string { return p.id }

// Peer is the host that it comes from.
func (p *visitor) Peer() string { return p.host }

// Node is what its last poll said.
func (p *visitor) Node() *corev3.Node {
	p.roster.mu.Lock()
	node, cluster := p.node, p.cluster
	p.roster.mu.Unlock()
	return fanout.KeptNode(node, p.id, cluster)
}

// Info describes the client: of each type how it stands with what it polls for.
func (p *visitor) Info() fanout.StreamInfo {
	p.roster.mu.Lock()
	i := fanout.StreamInfo{
		Peer: p.host, NodeID: p.id, Cluster: p.cluster, Key: string(p.key), Rule: p.rule, Variant: fanout.PollVariant, Since: p.since, Polled: p.since,
		Types: []fanout.TypeInfo{},
	}
	p.roster.mu.Unlock()
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

// compare looks at what the client polls for, type by type in the order E1, or of one
// type.
func (p *visitor) compare(url string, closely bool) [][]compared {
	p.roster.mu.Lock()
	all := make([]visits, 0, len(p.visits))
	for _, v := range p.visits {
		if url == "" || url == v.typ.URL {
			all = append(all, *v)
		}
	}
	p.roster.mu.Unlock()
	slices.SortFunc(all, func(a, b visits) int {
		return cmp.Or(cmp.Compare(a.typ.Order, b.typ.Order), strings.Compare(a.typ.URL, b.typ.URL), strings.Compare(a.names, b.names))
	})
	var out [][]compared
	for _, v := range all {
		c := v.compare(p.roster.cache, closely)
		if last := len(out) - 1; last >= 0 && out[last][0].typ == v.typ {
			out[last] = append(out[last], c)
			continue
		}
		out = append(out, []compared{c})
	}
	return out
}

// badness orders states: of the polls for one type the worst one counts.
var badness = map[fanout.State]int{fanout.Synced: 1, fanout.NotSent: 2, fanout.Unknown: 3, fanout.Stale: 4, fanout.Nacked: 5}

// typeInfo puts the polls for one type together. Versions and generations are those of
// one of them, the worst.
func typeInfo(all []compared) fanout.TypeInfo {
	worst := slices.MaxFunc(all, func(a, b compared) int {
		return cmp.Or(cmp.Compare(badness[a.state], badness[b.state]), a.toldAt.Compare(b.toldAt))
	})
	i := fanout.TypeInfo{
		TypeURL: worst.typ.URL, State: worst.state, Since: worst.stood, Sent: worst.place.Sent, Acked: worst.place.Acked, Head: worst.now.Gen,
		Version: worst.place.Version, SentAt: worst.toldAt, Has: redact.Text(worst.has), Told: worst.vain,
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
		switch later := v.stood.After(i.Since); {
		case v.state != i.State:
		case (v.state == fanout.Synced) == later:
			i.Since = v.stood // synced since the last one is, and otherwise since the first is
		}
	}
	return i
}

// Resources are those that the client polls for, each once.
func (p *visitor) Resources(yield func(fanout.ResourceStatus) bool) {
	for _, all := range p.compare("", true) {
		told := make(map[string]struct{})
		for i := range all {
			more := !all[i].there || all[i].place.Resources(func(r fanout.ResourceStatus) bool {
				if _, again := told[r.Name]; again {
					return true
				}
				told[r.Name] = struct{}{}
				return yield(r)
			})
			if !more {
				return
			}
		}
	}
}

// Holdings goes by the newest version that the client came back with.
func (p *visitor) Holdings() []fanout.Holds {
	var out []fanout.Holds
	for _, all := range p.compare("", true) {
		h := fanout.Holds{Type: all[0].typ, State: typeInfo(all).State}
		for i := range all {
			if h.State == fanout.Unknown || !all[i].there {
				continue
			}
			same, lacks := all[i].place.Lacks()
			for k := range lacks {
				lacks[k].Maybe = lacks[k].Maybe || all[i].blind && !lacks[k].Was
			}
			h.Same += same
			h.Lacks = append(h.Lacks, lacks...)
		}
		out = append(out, h)
	}
	return out
}

// Reach looks at the polls for the table's type, of which the worst counts.
func (p *visitor) Reach(t *cache.Table, u cache.Arrival) (state fanout.State, at time.Time, ok bool) {
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
				state, at = reached, v.stood
			case reached == state && v.stood.After(at):
				at = v.stood
			}
			ok = true
		}
	}
	return state, at, ok
}

// reached is how far an update has come that concerns what is polled for.
func (c *compared) reached(u cache.Arrival) fanout.State {
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

// reachOrder is badness for an update, which is worst where it was rejected, and then
// where it has not been told.
var reachOrder = map[fanout.State]int{fanout.Synced: 1, fanout.Stale: 2, fanout.NotSent: 3, fanout.Nacked: 4}
