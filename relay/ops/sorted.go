package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Sort is an order of clients.
type Sort string

// The orders. With all of them, clients that are equal otherwise are by name.
const (
	ByName Sort = "name"
	// ByState puts the worst state first, and of a state the clients that are in it longest.
	ByState Sort = "state"
	// BySince puts the clients first that are STALE, NACKED or UNKNOWN longest.
	BySince Sort = "since"
)

// Sorts are all orders.
func Sorts() []Sort { return []Sort{ByName, ByState, BySince} }

// rank is the place of a client in an order.
type rank struct {
	Group int   `json:"g,omitempty"`
	Since int64 `json:"s,omitempty"` // nanoseconds of Unix time
	At    at    `json:"a"`
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.Group, o.Group), cmp.Compare(r.Since, o.Since), r.At.compare(o.At))
}

// rank returns the place of c.
func (s Sort) rank(c *Client) rank {
	r := rank{At: c.at()}
	switch s {
	case ByState:
		r.Group = -2 * badness[c.State]
		if c.Missing > 0 {
			r.Group--
		}
	case BySince:
		switch {
		case c.State == Synced && c.Missing == 0:
			r.Group = 2
		case c.State == Synced || c.State == NotSent:
			r.Group = 1
		}
	default:
		return r
	}
	if !c.Since.IsZero() {
		r.Since = c.Since.UnixNano()
	}
	return r
}

// SortClients brings clients into an order.
func SortClients(clients []Client, by Sort) {
	slices.SortFunc(clients, func(a, b Client) int { return by.rank(&a).compare(by.rank(&b)) })
}

// parseSort reads an order; "" is [ByName] without the numbers of a sorted page.
func parseSort(text string) (Sort, error) {
	if s := Sort(text); text == "" || slices.Contains(Sorts(), s) {
		return s, nil
	}
	return "", fmt.Errorf("%s: got %q, expected name, state or since", paramSort, text)
}

// sortedPart is a page of the clients of one node in an order.
type sortedPart struct {
	Part

	// Sums count all clients that the query selects; nil except with the first page.
	Sums *Sums `json:"sums,omitempty"`
}

// sorted answers a query for a page in an order. It looks at all clients that q selects, once, and
// keeps two pages of them at most.
func (l Local) sorted(q Query) sortedPart {
	out := sortedPart{Part: Part{Clients: []Client{}}}
	if q.afterRank == nil {
		out.Sums = &Sums{Node: l.Node, States: Count{}, Types: []TypeSum{}}
	}
	cut := func() {
		SortClients(out.Clients, q.Sort)
		if len(out.Clients) > q.Limit {
			clear(out.Clients[q.Limit:])
			out.Clients, out.More = out.Clients[:q.Limit], true
		}
	}
	for c := range l.selected(q) {
		if out.Sums != nil {
			out.Sums.count(c)
		}
		if q.afterRank != nil && q.Sort.rank(c).compare(*q.afterRank) <= 0 {
			continue
		}
		kept := *c
		kept.Types, kept.Variants = slices.Clone(c.Types), slices.Clone(c.Variants)
		if out.Clients = append(out.Clients, kept); len(out.Clients) >= 2*q.Limit {
			cut()
		}
	}
	cut()
	if out.Sums != nil {
		out.Sums.finish()
	}
	for i := range out.Clients {
		out.Clients[i].cutTo(&q)
	}
	return out
}

// selected yields the clients that a query selects, by name. Each is valid until the next one, which gets its
// memory: a node counts its clients every few seconds.
func (l Local) selected(q Query) func(yield func(*Client) bool) {
	return func(yield func(*Client) bool) {
		var c Client
		for streams := l.find(q); len(streams) > 0; {
			n := sameClient(streams)
			c.describe(l.Node, streams[:n], &q)
			if streams = streams[n:]; q.stands(&c) && !yield(&c) {
				return
			}
		}
	}
}

// cutTo removes what a query does not ask for.
func (c *Client) cutTo(q *Query) {
	if q.Brief {
		c.Types, c.Variants = []Type{}, []string{}
	}
}

// sortedPage asks all nodes for a page in an order. Each node sends a whole page if it has one, so the
// first clients of all are complete.
func (f *Model) sortedPage(ctx context.Context, q Query, wanted func(node string) bool) Page {
	parts, silent := AskAll[sortedPart](ctx, f.nodes, askSorted, q.values(), wanted)
	page := Page{Clients: []Client{}, Silent: append(append([]Silent{}, q.silent...), silent...)}
	var sums []Sums
	more := false
	for _, p := range parts {
		page.Clients, more = append(page.Clients, p.Clients...), more || p.More
		if p.Sums != nil {
			sums = append(sums, *p.Sums)
		}
	}
	SortClients(page.Clients, q.Sort)
	if len(page.Clients) > q.Limit {
		page.Clients, more = page.Clients[:q.Limit], true
	}
	if q.afterRank == nil {
		sum := SumUp(sums, page.Silent)
		page.Summary = &sum
	}
	if more && len(page.Clients) > 0 {
		last := q.Sort.rank(&page.Clients[len(page.Clients)-1])
		page.Next = token(cursor{Rank: &last, Sort: q.Sort, Silent: page.Silent})
	}
	return page
}

// SumClients counts clients, of which the nodes that did not answer have others.
func SumClients(clients []Client, silent []Silent) Summary {
	sums := Sums{States: Count{}, Types: []TypeSum{}}
	for i := range clients {
		sums.count(&clients[i])
	}
	sums.finish()
	sum := SumUp([]Sums{sums}, silent)
	sum.Nodes = []Sums{}
	return sum
}
