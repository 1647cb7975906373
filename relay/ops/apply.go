package ops

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"xdsrelay/fanout"
)

// ParamMost is the number of streams that may be ended.
const ParamMost = "most"

// Former is how the key of a client on former aggregation rules compares with the rules in force.
type Former = fanout.Former

// The values of Former.
const (
	FormerKeyChanges = fanout.FormerKeyChanges
	FormerRefused    = fanout.FormerRefused
	FormerUnknown    = fanout.FormerUnknown
	FormerKeyStays   = fanout.FormerKeyStays
	FormerUnchecked  = fanout.FormerUnchecked
)

// MaxApply bounds the clients that one request moves.
const MaxApply = 10_000

// Applied is what became of one step of moving clients to the rules in force.
type Applied struct {
	// Ended is the number of streams that the step ended.
	Ended int `json:"ended"`
	// Former counts the clients on former rules before the step, by how their keys compare with the
	// rules in force.
	Former map[Former]int `json:"former_rules"`
	// Streams is the number of all client streams before the step.
	Streams int `json:"streams"`
	// Silent are the nodes that did not answer: their clients were not moved.
	Silent []Silent `json:"silent"`
}

// Due is the number of clients that have to reconnect to be on the rules in force. Those that the
// rules refuse are not among them: they would lose their streams.
func (a *Applied) Due() int {
	return a.Former[FormerKeyChanges] + a.Former[FormerUnknown]
}

// appliedPart is the answer of one node.
type appliedPart struct {
	Node  string `json:"node"`
	Ended int    `json:"ended"`
}

// answerApply ends streams of this node.
func (l Local) answerApply(_ context.Context, v url.Values) (any, error) {
	most, err := ParseMost(v.Get(ParamMost))
	if err != nil {
		return nil, err
	}
	return appliedPart{l.Node, l.EndFormer(most)}, nil
}

// ParseMost reads the value of ParamMost.
func ParseMost(text string) (int, error) {
	most, err := strconv.Atoi(text)
	if err != nil || most < 1 || most > MaxApply {
		return 0, fmt.Errorf("%s: got %q, expected a number from 1 to %d", ParamMost, text, MaxApply)
	}
	return most, nil
}

// Apply makes clients on former rules reconnect, at most this many streams on all nodes together. A
// node ends at least the streams of one connection.
func (f *Model) Apply(ctx context.Context, most int) Applied {
	nodes, silent := AskAll[Sums](ctx, f.nodes, askSums, url.Values{}, nil)
	sum := SumUp(nodes, silent)
	done := Applied{Former: sum.Former, Streams: sum.Streams, Silent: silent}
	if done.Former == nil {
		done.Former = map[Former]int{}
	}
	if done.Due() == 0 {
		return done
	}
	for node, n := range shares(nodes, most) {
		parts, failed := AskAll[appliedPart](ctx, f.nodes, askApply, url.Values{ParamMost: {strconv.Itoa(n)}}, func(name string) bool { return name == node })
		for _, p := range parts {
			done.Ended += p.Ended
		}
		done.Silent = append(done.Silent, failed...)
	}
	return done
}

// shares divides a number of clients among the nodes in proportion to those that are due.
func shares(nodes []Sums, most int) map[string]int {
	all, due := make(map[string]int), 0
	for _, n := range nodes {
		a := Applied{Former: n.Former}
		if d := a.Due(); d > 0 {
			all[n.Node] = d
			due += d
		}
	}
	if due <= most {
		return all
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	left, before := most, 0
	for _, name := range names {
		// Rounded so that the sum is most.
		part := (before+all[name])*most/due - before*most/due
		before += all[name]
		if all[name] = min(part, left); all[name] == 0 {
			delete(all, name)
		}
		left -= part
	}
	return all
}

// addFormer adds clients on former rules; none are added for the empty value.
func addFormer(all map[Former]int, is Former, clients int) map[Former]int {
	if is == "" {
		return all
	}
	if all == nil {
		all = make(map[Former]int)
	}
	all[is] += clients
	return all
}

// formerWarnings are about the clients on former rules.
func (a *NodeState) formerWarnings() (all []Warning) {
	add := func(text, detail string) {
		all = append(all, Warning{Level: levelWarning, Kind: "rules", Node: a.Node, Text: text, Detail: detail})
	}
	due := Applied{Former: a.Sums.Former}
	if n := due.Due(); n > 0 {
		has := "have"
		if n == 1 {
			has = "has"
		}
		detail := ""
		if unknown := due.Former[FormerUnknown]; unknown > 0 {
			detail = fmt.Sprintf("%s may have the right key: the rules in force read something that the node does not keep", count(unknown, "client"))
		}
		add(fmt.Sprintf("%s of node %s %s a key from former aggregation rules; move them with 'xdsrelay rules apply'", count(n, "client"), a.Node, has), detail)
	}
	if n := due.Former[FormerRefused]; n > 0 {
		add(fmt.Sprintf("%s of node %s will be refused on reconnect: no aggregation rule in force gives a key; fix the rules", count(n, "client"), a.Node), "")
	}
	return all
}
