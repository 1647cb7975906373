package ops

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"xdsrelay/fanout"
)

// Orders are carried out by the nodes that the clients are connected with. Any node can be asked: it
// finds the clients, and asks their nodes. A node carries out orders of other nodes only if its peer
// port proves that they are nodes of its tier.

// The orders about clients.
const (
	OrderKick   = "kick"
	OrderResend = "resend"
)

// Order is an order about clients. The names of clients are not completed.
type Order struct {
	// Do is OrderKick or OrderResend.
	Do string
	// Client is a node id; Key and Node may narrow it down.
	Client, Key, Node string
	// Type is the type URL to send again; empty for all.
	Type string
	// All means that there may be several clients.
	All bool
	// DryRun means that nothing is done.
	DryRun bool
	// By is who gives the order, for the logs of the nodes that carry it out.
	By string
}

// Orders is what a node can do about its clients. The functions are called concurrently.
type Orders struct {
	Kick   func(t fanout.Target, dry bool) []fanout.Ordered
	Resend func(t fanout.Target, typeURL string, dry bool) []fanout.Ordered
	// Reconnect makes the node try its control planes now, and returns how many it has.
	Reconnect func(dry bool) int
	// Trusted returns nil if the order comes from this node or is proven to come from another node of
	// the tier, and otherwise why it is not carried out.
	Trusted func(ctx context.Context) (err error)
	// Given is called for each order that was carried out for another node, to log it.
	Given func(ctx context.Context, o Order, from string, clients int)
}

// OrderedClient is a client that an order is about.
type OrderedClient struct {
	// Node is the node that it is connected with.
	Node string `json:"node"`
	fanout.Ordered

	// Sent are the short names of Types.
	Sent []string `json:"type_names,omitempty"`
}

// Ordered is what became of an order.
type Ordered struct {
	Order  string `json:"order"`
	DryRun bool   `json:"dry_run"`
	Client string `json:"client"`
	// Clients are those that the order is about, with DryRun those that it would be about.
	Clients []OrderedClient `json:"clients"`
	// Polling is the number of clients with that name that poll: orders do not concern them.
	Polling int `json:"polling,omitempty"`
	// Silent are nodes that did not answer or did not carry out the order. They may have further
	// clients with this name.
	Silent []Silent `json:"silent"`
}

// The errors of orders.
var (
	ErrNoClient  = errors.New("no client has this name")
	ErrAmbiguous = errors.New("several clients have this name")
)

// The parameters of orders.
const (
	ParamAll    = "all"
	ParamDryRun = "dry_run"
	paramBy     = "by"
)

// OrderParams are the parameters that [ParseOrder] reads of an order.
func OrderParams(do string) []string {
	params := []string{paramName, ParamKey, paramNode, ParamAll, ParamDryRun}
	if do == OrderResend {
		params = append(params, paramType)
	}
	return params
}

// ParseOrder reads an order. The error is the asker's.
func ParseOrder(do string, v url.Values) (o Order, err error) {
	o = Order{Do: do, Client: v.Get(paramName), Key: v.Get(ParamKey), Node: v.Get(paramNode), By: v.Get(paramBy)}
	if o.Client == "" {
		return o, errors.New("the parameter client is missing: expected ?client=NAME")
	}
	if text := v.Get(paramType); text != "" {
		if o.Type = TypeURL(text); o.Type == "" {
			return o, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text)
		}
	}
	if o.All, err = flag(v, ParamAll); err != nil {
		return o, err
	}
	o.DryRun, err = flag(v, ParamDryRun)
	return o, err
}

// flag reads a parameter that is true or false, or missing.
func flag(v url.Values, name string) (bool, error) {
	text := v.Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s: got %q, expected true or false", name, text)
	}
	return on, nil
}

// proven returns a handler that answers only this node and those that are proven to be nodes of the
// tier: what changes something, or shows more than a status, is not for anyone who reaches the peer port.
func (o Orders) proven(h func(context.Context, url.Values) (any, error)) func(context.Context, url.Values) (any, error) {
	return func(ctx context.Context, v url.Values) (any, error) {
		if err := o.Trusted(ctx); err != nil {
			return nil, err
		}
		return h(ctx, v)
	}
}

// takeOrders registers what a node does for others.
func (l Local) takeOrders(handle func(path string, h func(context.Context, url.Values) (any, error), params ...string)) {
	for _, do := range []string{OrderKick, OrderResend} {
		handle("fleet/"+do, l.Orders.proven(func(ctx context.Context, v url.Values) (any, error) {
			o, err := ParseOrder(do, v)
			if err != nil {
				return nil, err
			}
			done := l.do(o, v.Get(paramPeer))
			if !o.DryRun {
				l.Orders.Given(ctx, o, v.Get(paramFrom), len(done))
			}
			return done, nil
		}), append(OrderParams(do), paramPeer, paramBy, paramFrom)...)
	}
	l.takeReconnect(handle)
}

// do carries an order out here. peer may be empty.
func (l Local) do(o Order, peer string) (done []OrderedClient) {
	target := fanout.Target{ID: o.Client, Key: o.Key, Peer: peer}
	var all []fanout.Ordered
	switch o.Do {
	case OrderKick:
		all = l.Orders.Kick(target, o.DryRun)
	case OrderResend:
		all = l.Orders.Resend(target, o.Type, o.DryRun)
	}
	for _, c := range all {
		one := OrderedClient{Node: l.Node, Ordered: c}
		for _, t := range c.Types {
			one.Sent = append(one.Sent, ShortName(t))
		}
		done = append(done, one)
	}
	return done
}

// Order has an order carried out by the nodes of its clients. With ErrNoClient or ErrAmbiguous, the
// answer has the clients, and nothing was done.
func (f *Model) Order(ctx context.Context, o Order) (Ordered, error) {
	done := Ordered{Order: o.Do, DryRun: o.DryRun, Client: o.Client, Clients: []OrderedClient{}}
	page, err := f.Clients(ctx, Query{Name: o.Client, Key: o.Key, Node: o.Node, Limit: mostFound})
	done.Silent = page.Silent
	if err != nil {
		return done, err
	}
	found := slices.DeleteFunc(page.Clients, func(c Client) bool { return !c.Polled.IsZero() })
	done.Polling = len(page.Clients) - len(found)
	switch {
	case len(found) == 0:
		return done, ErrNoClient
	case len(found) > 1 && !o.All:
		for i := range found {
			c := &found[i]
			done.Clients = append(done.Clients, OrderedClient{Node: c.Node, Ordered: fanout.Ordered{ID: c.Name, Key: c.Key, Peer: c.Peer, Streams: c.Streams}})
		}
		return done, ErrAmbiguous
	}
	v := o.values(f.nodes.Self().Name)
	if !o.All {
		v.Set(ParamKey, found[0].Key)
		v.Set(paramPeer, found[0].Peer)
	}
	more := page.Next != "" // then any node may have some
	parts, silent := AskAll[[]OrderedClient](ctx, f.nodes, "fleet/"+o.Do, v, func(node string) bool {
		return (o.Node == "" || node == o.Node) && (more || slices.ContainsFunc(found, func(c Client) bool { return c.Node == node }))
	})
	for _, p := range parts {
		done.Clients = append(done.Clients, p...)
	}
	done.Silent = append(done.Silent, silent...)
	return done, nil
}

func (o Order) values(from string) url.Values {
	v := url.Values{paramName: {o.Client}, paramFrom: {from}}
	for name, text := range map[string]string{ParamKey: o.Key, paramType: o.Type, paramBy: o.By} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if o.DryRun {
		v.Set(ParamDryRun, "true")
	}
	return v
}

// NotOrdered explains why an order was not given, with the clients to choose from.
func (f *Model) NotOrdered(ctx context.Context, o Order, done Ordered, err error) error {
	var b strings.Builder
	switch {
	case errors.Is(err, ErrAmbiguous):
		fmt.Fprintf(&b, "%d clients have the name %q: narrow it down with a key or a node, or order it for all of them:", len(done.Clients), o.Client)
		for i, c := range done.Clients {
			if i == mostNames {
				b.WriteString("\n  …")
				break
			}
			fmt.Fprintf(&b, "\n  node %s, key %s, peer %s", c.Node, strconv.Quote(c.Key), c.Peer)
		}
	case errors.Is(err, ErrNoClient):
		fmt.Fprintf(&b, "no client with a stream has the name %q", o.Client)
		if o.Key != "" {
			fmt.Fprintf(&b, " and the key %q", o.Key)
		}
		if o.Node != "" {
			fmt.Fprintf(&b, " on node %s", o.Node)
		}
		if done.Polling > 0 {
			fmt.Fprintf(&b, "; %s with that name, which get the newest content with their next poll", count(done.Polling, "polling client"))
		} else if near := f.suggest(ctx, o.Client, done.Silent); len(near) > 0 {
			b.WriteString("; did you mean:")
			for _, n := range near {
				b.WriteString("\n  " + n)
			}
		}
	default:
		return err
	}
	for _, s := range done.Silent {
		fmt.Fprintf(&b, "\nnode %s, which did not answer, may have the client: %s", s.Node, s.Error)
	}
	return errors.New(b.String())
}

// suggest returns names that begin like a name, or else are near it.
func (f *Model) suggest(ctx context.Context, name string, silent []Silent) []string {
	found, err := f.Find(ctx, name, 0)
	switch {
	case err != nil:
		return nil
	case len(found.Clients) > 0 && found.Clients[0].Name != name:
		return []string{found.Clients[0].Name}
	case len(found.Clients) > 0: // with another key, or on another node
		return nil
	case len(found.Names) > 0:
		return found.Names
	case len(found.Similar) > 0:
		return found.Similar
	}
	return f.near(ctx, name, silent)
}
