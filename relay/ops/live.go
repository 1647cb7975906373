package ops

import (
	"slices"
	"time"

	"xdsrelay/relay/series"
	"xdsrelay/relay/terms"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// Live is a tier at a glance. It holds no running time, so that an answer is the same as the one
// before as long as nothing changes.
type Live struct {
	Title string     `json:"title"`
	Self  string     `json:"self"`
	Nodes []LiveNode `json:"nodes"`
	// Clients are those of all nodes that answered.
	Clients Summary  `json:"clients"`
	Updates []Update `json:"updates"`
	// Propagation is the time that updates took to the clients of all nodes that answered.
	Propagation series.Took `json:"propagation"`
	// Traffic is the traffic since the nodes started.
	Traffic   series.Totals `json:"traffic"`
	Upstreams []OriginInfo  `json:"upstreams"`
	// Warnings are what an operator should look at, the worst first.
	Warnings []Warning `json:"warnings"`
	// TraceURL is the URL of a trace, with {trace_id} in it; empty if none is configured.
	TraceURL string `json:"trace_url,omitempty"`
}

// LiveNode is a node of the tier.
type LiveNode struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// State is one of the states of nodes, such as [NodeOK]; Error says why. Differs are the
	// sections of its configuration that differ from those of most others and should not.
	State   string   `json:"state"`
	Error   string   `json:"error,omitempty"`
	Differs []string `json:"differs,omitempty"`
	// Clients of a silent node are unknown, and Streams are those of its last report.
	Clients  int           `json:"clients"`
	Streams  int           `json:"streams"`
	States   Count         `json:"states"`
	Keys     KeySums       `json:"keys"`
	Traffic  series.Totals `json:"traffic"`
	Settings *Settings     `json:"settings,omitempty"`
	// Redis is how the tier's Redis is for it; nil if that is not known.
	Redis *store.State `json:"redis,omitempty"`
	// Admin is the URL of its admin port, if the port can be reached from other machines.
	Admin string `json:"admin,omitempty"`
}

// Observed is what one node knows of the tier at a moment: the members, and what all nodes answered.
type Observed struct {
	Title   string // of the node that asked
	Members Members
	Answers []NodeState
	Silent  []Silent // nodes that did not answer
	Origins []OriginInfo
	// TraceURL is that of the configuration.
	TraceURL string
}

// Live summarizes it.
func (o *Observed) Live() Live {
	l := Live{Title: o.Title, Self: o.Members.Self, Nodes: []LiveNode{}, Upstreams: o.Origins, TraceURL: o.TraceURL}
	var sums []Sums
	var boards [][]Progress
	for _, m := range o.Members.everybody() {
		n := LiveNode{Name: m.Name, Version: m.Version, Since: m.Since, State: memberState(m), States: Count{}}
		if slices.ContainsFunc(o.Members.Strays, func(s shard.Member) bool { return s.Name == m.Name }) {
			n.State = NodeIsolated
		}
		if i := slices.IndexFunc(o.Silent, func(s Silent) bool { return s.Node == m.Name }); i >= 0 {
			n.State, n.Error, n.Streams = NodeSilent, o.Silent[i].Error, o.Silent[i].Clients
		}
		if i := slices.IndexFunc(o.Answers, func(a NodeState) bool { return a.Node == m.Name }); i >= 0 {
			a := &o.Answers[i]
			if n.State == NodeOK && a.NotReady != "" {
				n.State, n.Error = NodeNotReady, a.NotReady
			}
			n.Clients, n.Streams, n.States, n.Keys, n.Traffic, n.Settings = a.Sums.Clients, a.Sums.Streams, a.Sums.States, a.Keys, a.Totals, &a.Settings
			n.Redis, n.Admin = a.Redis, a.Admin
			l.Traffic.Add(a.Totals)
			sums, boards = append(sums, a.Sums), append(boards, a.Progress)
		}
		if i := slices.IndexFunc(o.Members.Differences, func(d terms.Difference) bool { return d.Node == m.Name }); i >= 0 {
			n.Differs = o.Members.Differences[i].Parts
		}
		l.Nodes = append(l.Nodes, n)
	}
	for _, m := range o.Members.absent() {
		state := NodeDisappeared
		if m.Listed {
			state = NodeSilent
		}
		l.Nodes = append(l.Nodes, LiveNode{Name: m.Name, Version: m.Version, State: state, Error: m.Error, States: Count{}})
	}
	var took []series.Counts
	for i := range o.Answers {
		took = append(took, o.Answers[i].Propagation)
	}
	l.Propagation = series.JoinTook(took)
	l.Clients, l.Updates = SumUp(sums, o.Silent), Updates(boards)
	l.Warnings = o.warnings(l.Clients.Rejections)
	return l
}
