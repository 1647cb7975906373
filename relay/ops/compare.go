package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"xdsrelay/fanout"
	"xdsrelay/relay/fielddiff"
	"xdsrelay/relay/resource"
	"xdsrelay/shard"
)

// SideKind is what a side of a comparison is.
type SideKind string

// The kinds of sides.
const (
	ClientSide SideKind = "client"
	KeySide    SideKind = "key"
)

// CompareQuery says what is compared.
type CompareQuery struct {
	Kind SideKind
	// A and B are names of clients, or keys; NodeA and NodeB say on which nodes, both may be empty.
	A, B, NodeA, NodeB string
	// Type is a type URL; empty for all.
	Type string
}

// Comparison is how what two clients or keys have differs.
type Comparison struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Types counts the resources of each type.
	Types []ComparedType `json:"types"`
	// Differences are resources that differ, by type and name, and Omitted how many more there are. Fields
	// are compared of the first ones.
	Differences []Compared `json:"differences"`
	Omitted     int        `json:"differences_omitted,omitempty"`
	// Differs says that some resource differs, or may differ.
	Differs bool `json:"differs"`
	// Silent are the nodes that did not answer.
	Silent []Silent `json:"silent"`
}

// Side is one of the two.
type Side struct {
	Kind SideKind `json:"kind"`
	Name string   `json:"name"`
	Key  string   `json:"key"`
	Node string   `json:"node"`
	Peer string   `json:"peer,omitempty"`
}

// ComparedType is a type in numbers.
type ComparedType struct {
	URL  string `json:"type_url"`
	Type string `json:"type"`
	// A and B are how many resources each side has. Same are equal on both sides, Changed differ, OnlyA and
	// OnlyB are on one side, and of the Unknown the version that a client has is not known.
	A       int `json:"a"`
	B       int `json:"b"`
	Same    int `json:"same"`
	Changed int `json:"changed"`
	OnlyA   int `json:"only_a"`
	OnlyB   int `json:"only_b"`
	Unknown int `json:"unknown"`
}

// Held is what a side has of a resource.
type Held struct {
	// Has is current, or for clients older or unknown. Version and Digest are those of the current one.
	Has     fanout.Holding `json:"has"`
	Version string         `json:"version,omitempty"`
	Digest  string         `json:"digest,omitempty"`
}

// Compared is a resource that differs.
type Compared struct {
	URL  string `json:"type_url"`
	Type string `json:"type"`
	Name string `json:"name"`
	// Change is from A to B: added, changed or removed, or unknown.
	Change string `json:"change"`
	A      *Held  `json:"a,omitempty"`
	B      *Held  `json:"b,omitempty"`
	// Fields are the differences of the contents, without secrets; nil if they were not compared.
	Fields *fielddiff.Diff `json:"fields,omitempty"`
}

// Bounds of a comparison: of how many resources the fields are compared, and how many fields of each; and how
// many resources of a side are looked at.
const (
	mostFieldsCompared = 20
	mostFieldsShown    = 50
	mostHeldOfSide     = 500_000
)

// The parameters of a comparison.
const (
	paramKind, paramA, paramB, paramNodeA, paramNodeB = "kind", "a", "b", "node_a", "node_b"
)

// CompareParams are the parameters that [ParseCompare] reads.
func CompareParams() []string {
	return []string{paramKind, paramA, paramB, paramNodeA, paramNodeB, paramType}
}

// ParseCompare reads a query from the parameters of a URL.
func ParseCompare(v url.Values) (q CompareQuery, err error) {
	q = CompareQuery{Kind: SideKind(v.Get(paramKind)), A: v.Get(paramA), B: v.Get(paramB), NodeA: v.Get(paramNodeA), NodeB: v.Get(paramNodeB)}
	switch {
	case q.Kind != ClientSide && q.Kind != KeySide:
		return q, fmt.Errorf("%s: got %q, expected client or key", paramKind, q.Kind)
	case q.A == "" || q.B == "":
		return q, errors.New("the parameters a and b are required: expected ?kind=client&a=NAME&b=NAME")
	case q.A == q.B && q.NodeA == q.NodeB:
		return q, fmt.Errorf("a and b are both %q: expected two names, or two nodes", q.A)
	}
	if text := v.Get(paramType); text != "" {
		if q.Type = TypeURL(text); q.Type == "" {
			return q, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text)
		}
	}
	return q, nil
}

// SideError is about one side that was not found.
type SideError struct {
	Side Side
	// Found has similar names of clients.
	Found Found
	err   error
}

func (e *SideError) Error() string { return e.err.Error() }
func (e *SideError) Unwrap() error { return e.err }

// Compare compares two clients or two keys.
func (f *Model) Compare(ctx context.Context, q CompareQuery) (Comparison, error) {
	out := Comparison{Types: []ComparedType{}, Differences: []Compared{}, Silent: []Silent{}}
	for _, s := range []struct {
		side       *Side
		name, node string
	}{{&out.A, q.A, q.NodeA}, {&out.B, q.B, q.NodeB}} {
		if s.node != "" && !slices.ContainsFunc(f.nodes.All(), func(m shard.Member) bool { return m.Name == s.node }) {
			return out, f.noNode(s.node)
		}
		find := f.findKey
		if q.Kind == ClientSide {
			find = f.findClient
		}
		var silent []Silent
		var err error
		if *s.side, silent, err = find(ctx, s.name, s.node); err != nil {
			return out, err
		}
		out.Silent = append(out.Silent, silent...)
	}
	slices.SortFunc(out.Silent, func(a, b Silent) int { return cmp.Compare(a.Node, b.Node) })
	out.Silent = slices.CompactFunc(out.Silent, func(a, b Silent) bool { return a.Node == b.Node })
	a, err := f.contentsOf(ctx, &out.A, q.Type)
	if err != nil {
		return out, err
	}
	b, err := f.contentsOf(ctx, &out.B, q.Type)
	if err != nil {
		return out, err
	}
	out.merge(a, b)
	f.compareFields(ctx, &out)
	return out, nil
}

// findClient finds the only client of a name, on one node if that is given.
func (f *Model) findClient(ctx context.Context, name, node string) (side Side, silent []Silent, err error) {
	found, err := f.Find(ctx, name, 0)
	if err != nil {
		return side, nil, err
	}
	all := slices.DeleteFunc(found.Clients, func(c Client) bool { return node != "" && c.Node != node })
	switch {
	case len(all) == 0:
		found.Clients = []Client{}
		return side, nil, &SideError{Side{Kind: ClientSide, Name: name, Node: node}, found, ErrNoClient}
	case len(all) > 1:
		return side, nil, fmt.Errorf("%d clients have the name %q, such as from %s on node %s and from %s on node %s: select nodes", len(all), all[0].Name, all[0].Peer, all[0].Node, all[1].Peer, all[1].Node)
	}
	return Side{ClientSide, all[0].Name, all[0].Key, all[0].Node, all[0].Peer}, found.Silent, nil
}

// findKey finds a node with a key: the owner, if it has it, unless a node is given.
func (f *Model) findKey(ctx context.Context, key, node string) (side Side, silent []Silent, err error) {
	wanted := func(n string) bool { return node == "" || n == node }
	answers, silent := AskAll[[]NodeKey](ctx, f.nodes, askKeys, KeyQuery{Key: key}.Values(), wanted)
	owner := f.nodes.Owner(key)
	side = Side{Kind: KeySide, Name: key, Key: key}
	for _, row := range slices.Concat(answers...) {
		if row.Key == key && (side.Node == "" || row.Node == owner) {
			side.Node = row.Node
		}
	}
	if side.Node == "" {
		side.Node = node
		return side, silent, &SideError{side, Found{Silent: silent}, ErrUnknownKey}
	}
	return side, silent, nil
}

// contentsOf asks the node of a side for what it has.
func (f *Model) contentsOf(ctx context.Context, s *Side, typeURL string) (all []held, err error) {
	v := url.Values{ParamKey: {s.Key}, paramType: {typeURL}}
	if s.Kind == ClientSide {
		v.Set(paramName, s.Name)
		v.Set(paramPeer, s.Peer)
	}
	for {
		answers, silent := AskAll[contents](ctx, f.nodes, askContents, v, func(n string) bool { return n == s.Node })
		switch {
		case len(silent) > 0:
			return nil, fmt.Errorf("node %s did not answer: %s", s.Node, silent[0].Error)
		case len(answers) == 0 || !answers[0].Known:
			return nil, fmt.Errorf("%s %q is no longer on node %s", s.Kind, s.Name, s.Node)
		}
		if all = append(all, answers[0].Held...); !answers[0].More || len(answers[0].Held) == 0 {
			return all, nil
		}
		if len(all) > mostHeldOfSide {
			return nil, fmt.Errorf("%s %q has more than %d resources: select a type", s.Kind, s.Name, mostHeldOfSide)
		}
		v.Set(paramAfter, token(all[len(all)-1].place()))
	}
}

// merge compares the sorted contents of both sides.
func (c *Comparison) merge(a, b []held) {
	for len(a) > 0 || len(b) > 0 {
		var order int
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = a[0].place().compare(b[0].place())
		}
		var x, y *held
		if order <= 0 {
			x, a = &a[0], a[1:]
		}
		if order >= 0 {
			y, b = &b[0], b[1:]
		}
		c.count(x, y)
	}
	order := func(x, y string) int {
		return cmp.Or(cmp.Compare(resource.TypeOf(x).Order, resource.TypeOf(y).Order), strings.Compare(x, y))
	}
	slices.SortFunc(c.Types, func(x, y ComparedType) int { return order(x.URL, y.URL) })
	slices.SortStableFunc(c.Differences, func(x, y Compared) int { return order(x.URL, y.URL) })
	if n := len(c.Differences); n > mostDifferences {
		c.Differences, c.Omitted = c.Differences[:mostDifferences], n-mostDifferences
	}
}

// count compares what the sides have of one resource; nil is nothing.
func (c *Comparison) count(x, y *held) {
	one := cmp.Or(x, y)
	name := cmp.Or(one.Name, one.Key)
	i := slices.IndexFunc(c.Types, func(t ComparedType) bool { return t.URL == one.URL })
	if i < 0 {
		i, c.Types = len(c.Types), append(c.Types, ComparedType{URL: one.URL, Type: ShortName(one.URL)})
	}
	t := &c.Types[i]
	d := Compared{URL: one.URL, Type: t.Type, Name: name}
	if x != nil {
		t.A++
		d.A = &x.Held
	}
	if y != nil {
		t.B++
		d.B = &y.Held
	}
	switch {
	case x == nil:
		d.Change = "added"
		t.OnlyB++
	case y == nil:
		d.Change = "removed"
		t.OnlyA++
	case x.Has == fanout.HasCurrent && y.Has == fanout.HasCurrent && x.Digest == y.Digest:
		t.Same++
		return
	case x.Has == fanout.HasCurrent && y.Has == fanout.HasCurrent:
		d.Change = "changed"
		t.Changed++
	case c.A.Key == c.B.Key && (x.Has == fanout.HasCurrent && y.Has == fanout.HasOlder || x.Has == fanout.HasOlder && y.Has == fanout.HasCurrent):
		d.Change = "changed" // one has the current content of the key, the other had another one
		t.Changed++
	default:
		d.Change = "unknown"
		t.Unknown++
	}
	c.Differs = true
	c.Differences = append(c.Differences, d)
}

// compareFields compares the contents of the first resources of which both sides have a known one.
func (f *Model) compareFields(ctx context.Context, c *Comparison) {
	var wanted []*Compared
	v := url.Values{}
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.Change != "changed" || d.A.Digest == "" || d.B.Digest == "" || len(wanted) == mostFieldsCompared {
			continue
		}
		wanted = append(wanted, d)
		v.Add(paramResource, token(place{d.URL, resource.Canonical(d.Name)}))
	}
	if len(wanted) == 0 {
		return
	}
	ask := func(s *Side) map[place]*shownResource {
		v.Set(ParamKey, s.Key)
		answers, _ := AskAll[[]shownResource](ctx, f.nodes, askBodies, v, func(n string) bool { return n == s.Node })
		all := make(map[place]*shownResource)
		for _, answer := range answers {
			for i := range answer {
				all[answer[i].Place] = &answer[i]
			}
		}
		return all
	}
	as, bs := ask(&c.A), ask(&c.B)
	for _, d := range wanted {
		p := place{d.URL, resource.Canonical(d.Name)}
		a, b := as[p], bs[p]
		if a == nil || b == nil || a.Digest != d.A.Digest || b.Digest != d.B.Digest {
			continue // it is private, too large, or has changed meanwhile
		}
		diff := fielddiff.Of(a.resource(), b.resource(), mostFieldsShown)
		if len(diff.Fields) == 0 && diff.Problem == "" {
			diff.Fields = []fielddiff.Field{{Change: fielddiff.Hidden}} // they were redacted, and differ
		}
		d.Fields = &diff
	}
}
