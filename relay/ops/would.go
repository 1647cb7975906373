package ops

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/config"
)

// Bounds of the answer about a candidate.
const (
	wouldTime    = 2 * time.Second // for the rules, on one node; less than askTime
	mostMoves    = 1000            // pairs of keys
	mostRefusals = 100             // rules with a reason
	mostExamples = 3               // clients

	paramCandidate = "candidate"
)

// Would is what would change in a tier if all nodes used another configuration.
type Would struct {
	// Nodes are those that answered.
	Nodes []string `json:"nodes"`
	// Clients are their clients: Unchanged keep their key, Changed get another one, Refused are
	// refused, and Unknown are those that the nodes cannot decide.
	Clients   int `json:"clients"`
	Unchanged int `json:"unchanged"`
	Changed   int `json:"changed"`
	Refused   int `json:"refused"`
	Unknown   int `json:"unknown"`
	// Moves are the changes of keys, those of most clients first; MovesOmitted is how many more
	// there are at least.
	Moves        []Move `json:"moves"`
	MovesOmitted int    `json:"moves_omitted,omitempty"`
	// Refusals are the rules that refuse clients, and Unknowns the reasons why nodes cannot decide.
	Refusals []WouldRefuse `json:"refusals"`
	Unknowns []WouldRefuse `json:"unknowns"`
	// Limits are those of the configuration that today's clients would exceed on a node.
	Limits []LimitHit `json:"limits"`
	// Fields are the fields that differ from the configuration of a node.
	Fields []FieldChange `json:"fields"`
	// Silent are the nodes that did not answer: nothing is known of their clients.
	Silent []Silent `json:"silent"`
}

// Move is a change of a key.
type Move struct {
	From    string `json:"from"`
	To      string `json:"to"` // the same if only the sharing of secrets changes
	Clients int    `json:"clients"`
}

// WouldRefuse is a number of clients that one rule would refuse, or that a node cannot decide.
type WouldRefuse struct {
	// By is authorization or aggregation; Rule is the rule, empty if none matches.
	By     string `json:"by"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
	// Clients is their number, and Examples are some of their names.
	Clients  int      `json:"clients"`
	Examples []string `json:"examples"`
}

// The values of By.
const (
	byAuthorization = "authorization"
	byAggregation   = "aggregation"
)

// Reasons why a node cannot decide.
const (
	notKept       = "the rules read something that the node does not keep of the client"
	noTime        = "the time for the evaluation was over"
	accessNotKept = "the authorization rules read something that the node does not keep of the client: a reload ends its stream, and it reconnects"
)

// LimitHit is a limit that today's clients would exceed. It refuses new connections and streams;
// existing ones stay.
type LimitHit struct {
	Node  string `json:"node"`
	Field string `json:"field"`
	// Who exceeds it most, for limits per source and identity, and Others how many more do.
	Who    string `json:"who,omitempty"`
	Others int    `json:"others,omitempty"`
	Used   int    `json:"used"`
	Limit  int    `json:"limit"`
}

// FieldChange is a field that differs.
type FieldChange struct {
	Field string `json:"field"`
	// Effect is when a change takes effect: live or restart.
	Effect string `json:"effect"`
	// Nodes are the nodes whose configuration differs.
	Nodes []string `json:"nodes"`
}

// The values of Effect.
const (
	EffectLive    = "live"
	EffectRestart = "restart"
)

// wouldPart is the answer of one node.
type wouldPart struct {
	Would

	Node    string   `json:"node"`
	Live    []string `json:"live"`
	Restart []string `json:"restart"`
}

// Running is the configuration of a node: what it was started with, and what it uses. Effect
// changes lists of fields where one takes effect only with another.
type Running struct {
	First, Current *config.Config
	Effect         func(live, restart []string) (l, r []string)
}

// answerWould answers other nodes. It evaluates one candidate at a time, so that operators cannot
// occupy all processors.
func (l Local) answerWould() func(ctx context.Context, v url.Values) (any, error) {
	evaluating := make(chan struct{}, 1)
	return func(ctx context.Context, v url.Values) (any, error) {
		c, err := ParseCandidate([]byte(v.Get(paramCandidate)))
		if err != nil {
			return nil, err
		}
		select {
		case evaluating <- struct{}{}:
			defer func() { <-evaluating }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		part, err := l.would(ctx, c)
		r := l.Running()
		part.Live, part.Restart = r.Effect(c.changes(r.First, r.Current))
		return part, err
	}
}

// would applies the rules and limits of a candidate to the clients of this node.
func (l Local) would(ctx context.Context, c *Candidate) (wouldPart, error) {
	rules, policy, err := c.compiled()
	part := wouldPart{Node: l.Node}
	if err != nil {
		return part, err
	}
	end := time.Now().Add(wouldTime)
	moves, used := make(map[Move]int), newUsage()
	streams := l.find(Query{})
	for len(streams) > 0 {
		n, first := sameClient(streams), streams[0]
		part.Clients++
		var r fanout.Ruling
		if ctx.Err() != nil || time.Now().After(end) {
			part.unknown(byAggregation, noTime, first.ID())
		} else {
			r = first.Rule(rules, policy)
			part.count(first, r, moves)
		}
		used.add(first, r, n)
		streams = streams[n:]
	}
	for m, n := range moves {
		m.Clients = n
		part.Moves = append(part.Moves, m)
	}
	part.sort()
	part.Limits = used.over(l.Node, c.Limits)
	return part, nil
}

// count adds a client.
func (w *Would) count(c fanout.Client, r fanout.Ruling, moves map[Move]int) {
	switch r.Kind {
	case fanout.GetsKey:
		if !r.Changes {
			w.Unchanged++
			return
		}
		w.Changed++
		moves[Move{From: c.Key(), To: r.Key}]++
	case fanout.NotAllowed:
		w.refuse(byAuthorization, r, c.ID())
	case fanout.NoKey:
		w.refuse(byAggregation, r, c.ID())
	case fanout.AccessUnknown:
		w.unknown(byAuthorization, accessNotKept, c.ID())
	case fanout.KeyUnknown:
		w.unknown(byAggregation, notKept, c.ID())
	}
}

func (w *Would) refuse(by string, r fanout.Ruling, name string) {
	w.Refused++
	w.Refusals = addRefusal(w.Refusals, WouldRefuse{by, r.Rule, r.Reason, 1, []string{name}})
}

func (w *Would) unknown(by, why, name string) {
	w.Unknown++
	w.Unknowns = addRefusal(w.Unknowns, WouldRefuse{by, "", why, 1, []string{name}})
}

// addRefusal adds to the clients of the same rule and reason.
func addRefusal(all []WouldRefuse, one WouldRefuse) []WouldRefuse {
	i := slices.IndexFunc(all, func(o WouldRefuse) bool { return o.By == one.By && o.Rule == one.Rule && o.Reason == one.Reason })
	if i < 0 {
		if len(all) < mostRefusals {
			all = append(all, one)
		}
		return all
	}
	o := &all[i]
	o.Clients += one.Clients
	for _, name := range one.Examples {
		if len(o.Examples) < mostExamples && !slices.Contains(o.Examples, name) {
			o.Examples = append(o.Examples, name)
		}
	}
	return all
}

// sort puts what concerns most clients first, and bounds the moves.
func (w *Would) sort() {
	slices.SortFunc(w.Moves, func(a, b Move) int {
		return cmp.Or(b.Clients-a.Clients, strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	if more := len(w.Moves) - mostMoves; more > 0 {
		w.Moves, w.MovesOmitted = w.Moves[:mostMoves], w.MovesOmitted+more
	}
	for _, list := range [][]WouldRefuse{w.Refusals, w.Unknowns} {
		slices.SortFunc(list, func(a, b WouldRefuse) int {
			return cmp.Or(b.Clients-a.Clients, strings.Compare(a.By, b.By), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Reason, b.Reason))
		})
	}
}

// Would asks all nodes what a candidate would change.
func (f *Model) Would(ctx context.Context, candidate []byte) (Would, error) {
	c, err := ParseCandidate(candidate)
	if err == nil {
		_, _, err = c.compiled()
	}
	if err != nil {
		return Would{}, err
	}
	parts, silent := AskAll[wouldPart](ctx, f.nodes, askWould, url.Values{paramCandidate: {string(candidate)}}, nil)
	return joinWould(parts, silent), nil
}

// joinWould puts the answers of nodes together.
func joinWould(parts []wouldPart, silent []Silent) Would {
	w := Would{Nodes: []string{}, Moves: []Move{}, Refusals: []WouldRefuse{}, Unknowns: []WouldRefuse{}, Limits: []LimitHit{}, Fields: []FieldChange{}, Silent: silent}
	moves := make(map[Move]int)
	dropOwnFields(parts)
	for _, p := range parts {
		w.Nodes = append(w.Nodes, p.Node)
		w.Clients, w.Unchanged, w.Changed = w.Clients+p.Clients, w.Unchanged+p.Unchanged, w.Changed+p.Changed
		w.Refused, w.Unknown = w.Refused+p.Refused, w.Unknown+p.Unknown
		w.MovesOmitted += p.MovesOmitted
		for _, m := range p.Moves {
			moves[Move{From: m.From, To: m.To}] += m.Clients
		}
		for _, r := range p.Refusals {
			w.Refusals = addRefusal(w.Refusals, r)
		}
		for _, r := range p.Unknowns {
			w.Unknowns = addRefusal(w.Unknowns, r)
		}
		w.Limits = append(w.Limits, p.Limits...)
		for effect, fields := range map[string][]string{EffectLive: p.Live, EffectRestart: p.Restart} {
			for _, field := range fields {
				w.Fields = addField(w.Fields, FieldChange{field, effect, []string{p.Node}})
			}
		}
	}
	for m, n := range moves {
		m.Clients = n
		w.Moves = append(w.Moves, m)
	}
	w.sort()
	slices.SortFunc(w.Fields, func(a, b FieldChange) int {
		return cmp.Or(strings.Compare(a.Effect, b.Effect), strings.Compare(a.Field, b.Field))
	})
	return w
}

// ownFields are fields that differ between the nodes of any tier.
var ownFields = []string{fieldNodeName, "listener.address", "rest.address", "tier.peer.address", "admin.address", "metrics.address"}

const fieldNodeName = "node.name"

// dropOwnFields compares these fields only with the node that has the name in the configuration. A
// configuration for all nodes, and one for a node that is not in the tier, are compared with all.
func dropOwnFields(parts []wouldPart) {
	other := func(p wouldPart) bool { return slices.Contains(p.Restart, fieldNodeName) }
	if !slices.ContainsFunc(parts, func(p wouldPart) bool { return !other(p) }) {
		return
	}
	for i, p := range parts {
		if other(p) {
			parts[i].Restart = slices.DeleteFunc(slices.Clone(p.Restart), func(f string) bool { return slices.Contains(ownFields, f) })
		}
	}
}

func addField(all []FieldChange, one FieldChange) []FieldChange {
	i := slices.IndexFunc(all, func(o FieldChange) bool { return o.Field == one.Field && o.Effect == one.Effect })
	if i < 0 {
		return append(all, one)
	}
	all[i].Nodes = append(all[i].Nodes, one.Nodes...)
	return all
}
