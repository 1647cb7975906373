package ops

import (
	"context"
	"net/url"
	"slices"

	"xdsrelay/shard"
)

const (
	// OrderReconnect is the order to try control planes now.
	OrderReconnect = "reconnect"
	askReconnect   = "fleet/" + OrderReconnect
)

// ReconnectOrder is the order to nodes to try their control planes now.
type ReconnectOrder struct {
	// Node is the node that is meant; empty for the node that is asked. All means all nodes.
	Node string
	All  bool
	// DryRun means that nothing is done, and By is who gives the order.
	DryRun bool
	By     string
}

// Reconnecting is what became of the order.
type Reconnecting struct {
	// Node is the node that was meant; empty if all were. ControlPlanes is how many control planes are
	// retried.
	Node          string `json:"node"`
	ControlPlanes int    `json:"control_planes"`
	DryRun        bool   `json:"dry_run"`
	// Nodes are the nodes that answered, and Silent those that did not, or did not carry out the order.
	Nodes  []ReconnectingNode `json:"nodes"`
	Silent []Silent           `json:"silent"`
}

// ReconnectingNode is a node that retries its control planes.
type ReconnectingNode struct {
	Node          string `json:"node"`
	ControlPlanes int    `json:"control_planes"`
}

// ReconnectParams are the parameters that [ParseReconnect] reads.
func ReconnectParams() []string { return []string{paramNode, ParamAll, ParamDryRun} }

// ParseReconnect reads an order. The error is the asker's.
func ParseReconnect(v url.Values) (o ReconnectOrder, err error) {
	o = ReconnectOrder{Node: v.Get(paramNode), By: v.Get(paramBy)}
	if o.All, err = flag(v, ParamAll); err != nil {
		return o, err
	}
	o.DryRun, err = flag(v, ParamDryRun)
	return o, err
}

func (l Local) takeReconnect(handle func(path string, h func(context.Context, url.Values) (any, error), params ...string)) {
	handle(askReconnect, l.Orders.proven(func(ctx context.Context, v url.Values) (any, error) {
		o, err := ParseReconnect(v)
		if err != nil {
			return nil, err
		}
		done := ReconnectingNode{l.Node, l.Orders.Reconnect(o.DryRun)}
		if !o.DryRun {
			l.Orders.Given(ctx, Order{Do: OrderReconnect, By: o.By}, v.Get(paramFrom), 0)
		}
		return done, nil
	}), ParamDryRun, paramBy, paramFrom)
}

// Reconnect has nodes try their control planes now.
func (f *Model) Reconnect(ctx context.Context, o ReconnectOrder) (Reconnecting, error) {
	done := Reconnecting{Node: o.Node, DryRun: o.DryRun, Nodes: []ReconnectingNode{}}
	if o.Node == "" && !o.All {
		done.Node = f.nodes.Self().Name
	}
	if o.Node != "" && !slices.ContainsFunc(f.nodes.All(), func(m shard.Member) bool { return m.Name == o.Node }) {
		return done, f.noNode(o.Node)
	}
	v := Order{By: o.By, DryRun: o.DryRun}.values(f.nodes.Self().Name)
	var parts []ReconnectingNode
	parts, done.Silent = AskAll[ReconnectingNode](ctx, f.nodes, askReconnect, v, func(node string) bool { return done.Node == "" || node == done.Node })
	done.Nodes = append(done.Nodes, parts...)
	for _, p := range parts {
		done.ControlPlanes += p.ControlPlanes
	}
	return done, nil
}
