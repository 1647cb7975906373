package ops

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/resource"
)

// Count is how many stand how.
type Count map[State]int

func (c Count) add(o Count) {
	for s, n := range o {
		c[s] += n
	}
}

// Sums are a node's clients in numbers.
type Sums struct {
	Node    string `json:"node"`
	Clients int    `json:"clients"`
	Streams int    `json:"streams"`
	// States counts clients by how they stand altogether.
	States Count `json:"states"`
	// Missing is how many clients ask for a resource that does not exist, in any state.
	Missing int       `json:"missing"`
	Types   []TypeSum `json:"types"`
	// Unacked is how many bytes are on their way to clients.
	Unacked int64 `json:"unacked_bytes"`
	// Rejections are the reasons of most clients.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Former counts the clients with a key from former aggregation rules, by how the key compares
	// with the rules in force.
	Former map[Former]int `json:"former_rules,omitempty"`
}

// TypeSum is a type in numbers of clients that ask for it.
type TypeSum struct {
	URL    string `json:"type_url"`
	Name   string `json:"type"`
	States Count  `json:"states"`
	// Missing is how many of the clients ask for a resource of it that does not exist.
	Missing int `json:"missing"`
	// Stale is since when the first of those that are stale is.
	Stale time.Time `json:"stale_since,omitzero"`
}

// Summary is a tier in numbers.
type Summary struct {
	Clients int       `json:"clients"`
	Streams int       `json:"streams"`
	States  Count     `json:"states"`
	Missing int       `json:"missing"`
	Types   []TypeSum `json:"types"`
	Unacked int64     `json:"unacked_bytes"`
	// Rejections are why clients reject what was sent, the reasons of most clients first.
	Rejections []Rejection `json:"rejections"`
	// Former counts the clients with a key from former aggregation rules, as in Sums.
	Former map[Former]int `json:"former_rules,omitempty"`
	Nodes  []Sums         `json:"nodes"`
	// Silent are the nodes that did not answer; Unknown is how many streams of clients
	// they last said they had, which are in none of the other numbers.
	Silent  []Silent `json:"silent"`
	Unknown int      `json:"unknown_streams"`
}

// Sums counts the clients. It costs as much as there are.
func (l Local) Sums() Sums {
	sums := Sums{Node: l.Node, States: Count{}, Types: []TypeSum{}}
	for c := range l.selected(Query{}) {
		sums.count(c)
	}
	sums.finish()
	return sums
}

// count adds a client.
func (s *Sums) count(c *Client) {
	s.Clients++
	s.Streams += c.Streams
	s.Unacked += int64(c.Unacked)
	s.States[c.State]++
	s.rejected(c)
	if c.Missing > 0 {
		s.Missing++
	}
	s.Former = addFormer(s.Former, c.Former, 1)
	for i := range c.Types {
		s.Types = countType(s.Types, &c.Types[i])
	}
}

// finish completes the numbers when all clients are counted.
func (s *Sums) finish() {
	sortTypes(s.Types)
	s.Rejections = mostCommon(s.Rejections)
}

// countType adds a type of a client to those of its kind.
func countType(all []TypeSum, t *Type) []TypeSum {
	i := slices.IndexFunc(all, func(o TypeSum) bool { return o.URL == t.URL })
	if i < 0 {
		i, all = len(all), append(all, TypeSum{URL: t.URL, Name: t.Name, States: Count{}})
	}
	one := &all[i]
	one.States[t.State]++
	if t.Missing > 0 {
		one.Missing++
	}
	if t.State == Stale && !t.Since.IsZero() && (one.Stale.IsZero() || t.Since.Before(one.Stale)) {
		one.Stale = t.Since
	}
	return all
}

// countByKey counts the clients of each key.
func (l Local) countByKey() map[string]Count {
	keys := make(map[string]Count)
	for c := range l.selected(Query{}) {
		if keys[c.Key] == nil {
			keys[c.Key] = Count{}
		}
		keys[c.Key][c.State]++
	}
	return keys
}

// addType adds the numbers of a type to those of its kind.
func addType(all []TypeSum, one TypeSum) []TypeSum {
	i := slices.IndexFunc(all, func(t TypeSum) bool { return t.URL == one.URL })
	if i < 0 {
		states := Count{}
		states.add(one.States)
		one.States = states
		return append(all, one)
	}
	all[i].States.add(one.States)
	all[i].Missing += one.Missing
	if s := one.Stale; !s.IsZero() && (all[i].Stale.IsZero() || s.Before(all[i].Stale)) {
		all[i].Stale = s
	}
	return all
}

func sortTypes(types []TypeSum) {
	slices.SortFunc(types, func(a, b TypeSum) int {
		return cmp.Or(cmp.Compare(resource.TypeOf(a.URL).Order, resource.TypeOf(b.URL).Order), strings.Compare(a.URL, b.URL))
	})
}

// Summary asks all nodes for their numbers.
func (f *Model) Summary(ctx context.Context) Summary {
	nodes, silent := AskAll[Sums](ctx, f.nodes, askSums, url.Values{}, nil)
	return SumUp(nodes, silent)
}

// SumUp adds up the numbers of nodes.
func SumUp(nodes []Sums, silent []Silent) Summary {
	sum := Summary{States: Count{}, Types: []TypeSum{}, Rejections: []Rejection{}, Nodes: slices.Clone(nodes), Silent: silent}
	for _, n := range nodes {
		sum.Clients += n.Clients
		sum.Streams += n.Streams
		sum.Unacked += n.Unacked
		sum.States.add(n.States)
		sum.Missing += n.Missing
		for is, clients := range n.Former {
			sum.Former = addFormer(sum.Former, is, clients)
		}
		for _, t := range n.Types {
			sum.Types = addType(sum.Types, t)
		}
	}
	for i := range sum.Nodes {
		for _, r := range sum.Nodes[i].Rejections {
			sum.Rejections = addRejection(sum.Rejections, r)
		}
		sum.Nodes[i].Rejections = nil // they are in the sum
	}
	sum.Rejections = mostCommon(sum.Rejections)
	for i := range sum.Rejections {
		sum.Rejections[i].Hashes = nil
	}
	for _, s := range silent {
		sum.Unknown += s.Clients
	}
	sortTypes(sum.Types)
	return sum
}
