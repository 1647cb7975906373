package ops

import (
	"context"
	"net/url"
	"slices"

	"xdsrelay/shard"
)

// The questions that nodes ask one another.
const (
	askKeys         = "keys"
	askClients      = "fleet/clients"
	askSums         = "fleet/sums"
	askNear         = "fleet/near"
	askHistory      = "fleet/history"
	askDump         = "fleet/dump"
	askDiff         = "fleet/diff"
	askDigests      = "fleet/digests"
	askChanges      = "fleet/changes"
	askArrival      = "fleet/arrival"
	askClientEvents = "fleet/client_events"
	askWould        = "fleet/would"
	askApply        = "fleet/apply"
	askSorted       = "fleet/sorted"
	askWho          = "fleet/who"
	askWhoNear      = "fleet/who/near"
	askContents     = "fleet/contents"
	askBodies       = "fleet/bodies"
	askRejections   = "fleet/rejections"
)

// Model is the state of a whole tier. All methods are safe for concurrent use.
type Model struct {
	local Local
	nodes *Nodes
}

// New makes the part of a node. handle registers what it answers other nodes, with the
// parameters that each answer reads.
func New(local Local, nodes *Nodes, handle func(path string, h func(context.Context, url.Values) (any, error), params ...string)) *Model {
	handle(askClients, func(_ context.Context, v url.Values) (any, error) {
		q, err := ParseQuery(v)
		if err != nil {
			return nil, err
		}
		return local.Part(q), nil
	}, append(QueryParams(), paramAfter)...)
	handle(askSorted, func(_ context.Context, v url.Values) (any, error) {
		q, err := ParseQuery(v)
		if err != nil {
			return nil, err
		}
		return local.sorted(q), nil
	}, append(QueryParams(), paramAfter)...)
	handle(askKeys, func(_ context.Context, v url.Values) (any, error) {
		q, err := ParseKeyQuery(v)
		if err != nil {
			return nil, err
		}
		return q.Rows(local.keys(q)), nil
	}, KeyQueryParams()...)
	handle(askSums, func(context.Context, url.Values) (any, error) { return local.Sums(), nil })
	handle(askNear, func(_ context.Context, v url.Values) (any, error) { return local.Near(v.Get(paramName)), nil }, paramName)
	handle(askHistory, func(_ context.Context, v url.Values) (any, error) { return local.history(v.Get(ParamKey)), nil }, ParamKey)
	handle(askDump, func(_ context.Context, v url.Values) (any, error) { return local.answerDump(v) }, ParamKey, paramType, paramAfter)
	handle(askDiff, func(_ context.Context, v url.Values) (any, error) {
		return local.diff(at{Name: v.Get(paramName), Key: v.Get(ParamKey), Peer: v.Get(paramPeer)}), nil
	}, paramName, ParamKey, paramPeer)
	handle(askDigests, func(_ context.Context, v url.Values) (any, error) { return local.digests(v.Get(ParamKey)), nil }, ParamKey)
	handle(askWho, func(_ context.Context, v url.Values) (any, error) { return local.answerWho(v) }, append(WhoParams(), paramAfter)...)
	handle(askWhoNear, func(_ context.Context, v url.Values) (any, error) {
		return local.nearResources(v.Get(paramResource), v.Get(paramType)), nil
	}, paramResource, paramType)
	handle(askContents, func(_ context.Context, v url.Values) (any, error) { return local.answerContents(v) }, paramName, ParamKey, paramPeer, paramType, paramAfter)
	handle(askBodies, func(_ context.Context, v url.Values) (any, error) { return local.answerBodies(v) }, ParamKey, paramResource)
	handle(askChanges, func(_ context.Context, v url.Values) (any, error) { return local.answerChanges(v) }, ChangesParams()...)
	handle(askRejections, func(_ context.Context, v url.Values) (any, error) { return local.answerRejections(v) }, RejectionParams()...)
	handle(askArrival, func(_ context.Context, v url.Values) (any, error) {
		q, err := ParseQuery(v)
		if err != nil {
			return nil, err
		}
		return local.arrival(v.Get(ParamVersion), q), nil
	}, ArrivalParams()...)
	handle(askClientEvents, func(_ context.Context, v url.Values) (any, error) { return local.answerClientEvents(v) }, paramName, paramLimit)
	local.takeOrders(handle)
	local.answerEvents(handle)
	handle(askWould, local.Orders.proven(local.answerWould()), paramCandidate)
	handle(askApply, local.Orders.proven(local.answerApply), ParamMost)
	return &Model{local: local, nodes: nodes}
}

// Page is a page of the clients of a tier.
type Page struct {
	Clients []Client `json:"clients"`
	// Next is what asks for the page behind this one; empty on the last one.
	Next string `json:"next,omitempty"`
	// Silent are the nodes that did not answer: their clients are not here. One that
	// was silent once is not asked for later pages, so that these are not late, too.
	Silent []Silent `json:"silent"`
	// Summary counts all clients that the query selects, on this page and behind it. Only the
	// first page of a query with an order has it.
	Summary *Summary `json:"summary,omitempty"`
}

// Clients answers a query: a page of clients by their names. Its size is at most what
// was asked for, and may be less although there are more.
func (f *Model) Clients(ctx context.Context, q Query) (Page, error) {
	if q.Node != "" && !slices.ContainsFunc(f.nodes.All(), func(m shard.Member) bool { return m.Name == q.Node }) {
		return Page{}, f.noNode(q.Node)
	}
	wanted := func(node string) bool {
		return (q.Node == "" || node == q.Node) && !slices.ContainsFunc(q.silent, func(s Silent) bool { return s.Node == node })
	}
	if q.Sort != "" {
		return f.sortedPage(ctx, q, wanted), nil
	}
	asked := q
	asked.Limit = shareOf(q.Limit, len(f.nodes.All()))
	parts, silent := AskAll[Part](ctx, f.nodes, askClients, asked.values(), wanted)
	return q.join(parts, silent), nil
}

// fullShare is the size up to which each node sends a whole page.
const fullShare = 200

// shareOf is how many clients each of n nodes sends for a page of limit clients by name. Clients of all
// nodes are mixed in that order, so a whole page of each would be dropped for the most part.
func shareOf(limit, n int) int {
	if limit <= fullShare || n <= 1 {
		return limit
	}
	return min(limit, max(fullShare, limit/n+limit/8))
}

// join puts the parts of all nodes together. What lies behind the end of any part
// that has more waits for the next page, since that node may have something before
// it.
func (q *Query) join(parts []Part, silent []Silent) Page {
	page := Page{Clients: []Client{}, Silent: append(append([]Silent{}, q.silent...), silent...)}
	var end *at
	for _, p := range parts {
		if n := len(p.Clients); p.More && n > 0 {
			if last := p.Clients[n-1].at(); end == nil || last.compare(*end) < 0 {
				end = &last
			}
		}
		page.Clients = append(page.Clients, p.Clients...)
	}
	slices.SortFunc(page.Clients, func(a, b Client) int { return a.at().compare(b.at()) })
	more := end != nil
	if more {
		page.Clients = slices.DeleteFunc(page.Clients, func(c Client) bool { return c.at().compare(*end) > 0 })
	}
	if len(page.Clients) > q.Limit {
		page.Clients, more = page.Clients[:q.Limit], true
	}
	if more && len(page.Clients) > 0 {
		page.Next = token(cursor{After: page.Clients[len(page.Clients)-1].at(), Silent: page.Silent})
	}
	return page
}

// Found is what a name stands for.
type Found struct {
	// Clients are those of that name, or where there are none the clients of the only
	// name that begins so.
	Clients []Client `json:"clients"`
	// Names are those that begin so, where there are several and none is the name
	// itself; and otherwise those that are near, where there are none. More says that
	// there are further ones.
	Names   []string `json:"names,omitempty"`
	Similar []string `json:"similar,omitempty"`
	More    bool     `json:"more,omitempty"`
	// Silent are the nodes that did not answer: the client may be there.
	Silent []Silent `json:"silent"`
}

// Bounds of what is found by a name.
const (
	mostFound = 100 // clients
	mostNames = 20
	mostNear  = 5
)

// Find looks for clients by a name or its beginning, and tells so many resources of
// each of their types.
func (f *Model) Find(ctx context.Context, name string, resources int) (Found, error) {
	page, err := f.Clients(ctx, Query{Name: name, Limit: mostFound, Resources: resources})
	if err != nil || len(page.Clients) > 0 {
		return Found{Clients: page.Clients, More: page.Next != "", Silent: page.Silent}, err
	}
	found := Found{Clients: []Client{}, Silent: page.Silent}
	for q := (Query{Prefix: name, Limit: usualPage, silent: page.Silent}); ; {
		if page, err = f.Clients(ctx, q); err != nil {
			return found, err
		}
		for _, c := range page.Clients {
			if n := len(found.Names); n == 0 || found.Names[n-1] != c.Name {
				found.Names = append(found.Names, c.Name)
			}
		}
		if page.Next == "" || len(found.Names) > mostNames {
			break
		}
		last := page.Clients[len(page.Clients)-1].at()
		q.after = &last
	}
	switch {
	case len(found.Names) == 1:
		return f.Find(ctx, found.Names[0], resources)
	case len(found.Names) > mostNames:
		found.Names, found.More = found.Names[:mostNames], true
	case len(found.Names) == 0:
		found.Similar = f.near(ctx, name, found.Silent)
	}
	return found, nil
}
