package relay

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
)

// orders are what operators can have this node do about its clients.
func (n *Node) orders() ops.Orders {
	return ops.Orders{
		Kick: func(t fanout.Target, dry bool) []fanout.Ordered { return n.fanout.Kick(t, dry) },
		Resend: func(t fanout.Target, typeURL string, dry bool) []fanout.Ordered {
			return n.fanout.Resend(t, typeURL, dry)
		},
		Reconnect: n.reconnect, Trusted: n.trustsOrders, Given: n.orderGiven,
	}
}

// errUnproven refuses an order of another node.
var errUnproven = status.Error(codes.PermissionDenied, "it does not accept orders of other nodes, because its peer port does not prove who sends them: set tier.peer.token_file, or tier.peer.tls with client certificates; or run the command with the admin port of that node")

// trustsOrders returns why an order that arrived over the peer port is not carried out: anyone who
// reaches a port without proof could close the connections of all clients. An order of this node
// itself has no peer.
func (n *Node) trustsOrders(ctx context.Context) error {
	if from, ok := peer.FromContext(ctx); !ok || from == nil || n.peers == nil || n.peers.proven {
		return nil
	}
	return errUnproven
}

// maxOrderText bounds what is logged of the parts of an order, in bytes.
const maxOrderText = 256

// orderGiven logs an order that was carried out for another node. The log of that node has the order,
// too, with the permission that it was given by.
func (n *Node) orderGiven(ctx context.Context, o ops.Order, from string, clients int) {
	at, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	n.part(logs.Security).Info("operator command of another node", "order", o.Do, "client", redact.Short(o.Client, maxOrderText), "key", redact.Short(o.Key, maxOrderText),
		"type", o.Type, "from_node", redact.Short(from, maxOrderText), "peer", at.Addr.String(), "identity", redact.Short(o.By, maxOrderText), "clients", clients)
}
