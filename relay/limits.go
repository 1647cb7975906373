package relay

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/fanout"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
)

// limitsOf are the limits of a configuration.
func limitsOf(cfg *config.Config) limit.Values {
	l := cfg.Limits
	return limit.Values{
		Connections: l.Connections, ConnectionsPerSource: l.ConnectionsPerSource, ConnectionsPerIdentity: l.ConnectionsPerIdentity,
		Streams: l.Streams, StreamsPerSource: l.StreamsPerSource, StreamsPerIdentity: l.StreamsPerIdentity,
		Keys: l.Keys, KeysPerIdentity: l.KeysPerIdentity, PeerConnections: l.PeerConnections, PeerStreams: l.PeerStreams,
		StreamsPerConnection: l.StreamsPerConnection,
		TypesPerStream:       l.TypesPerStream, TypesPerKey: l.TypesPerKey,
		NameSize: int(l.NameSize), NodeSize: int(l.NodeSize), HeaderSize: int(l.HeaderSize),
		RequestsPerSecond: l.RequestsPerSecond, RequestBurst: l.RequestBurst,
		RequestTimeout: requestTimeout(cfg), PartialSize: partialSize(cfg),
		NewStreams: l.NewStreams, SyncWithin: l.SyncWithin, MemoryPercent: l.MemoryPercent,
		Linger: cfg.Cache.Linger,
	}
}

// requestTimeout leaves time for the turn of a request that follows the largest one with
// the most names: until that is paid for nothing is read.
func requestTimeout(cfg *config.Config) time.Duration {
	l := cfg.Limits
	if l.RequestTimeout == 0 || l.RequestsPerSecond == 0 {
		return l.RequestTimeout
	}
	names := limit.NameCost(cfg.Listen.MaxNames*cache.NameCost + int(l.NameSize))
	tokens := limit.Cost(int(cfg.Listen.MaxReceiveSize)) + max(names-l.RequestBurst, 0)
	turn := time.Duration(tokens) * time.Second / time.Duration(l.RequestsPerSecond)
	return max(l.RequestTimeout, 2*turn)
}

// partialSize leaves room for the largest request, and for what its pieces take beyond
// their bytes.
func partialSize(cfg *config.Config) int {
	if cfg.Limits.PartialSize == 0 {
		return 0
	}
	return int(max(cfg.Limits.PartialSize, cfg.Listen.MaxReceiveSize+cfg.Listen.MaxReceiveSize/4))
}

// clientOptions are the limits that gRPC itself holds, on the ports for clients.
func (n *Node) clientOptions() []grpc.ServerOption {
	l := n.cfg.Limits
	alive := fanout.KeepaliveParams()
	alive.MaxConnectionIdle = l.IdleTimeout
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(uint32(l.StreamsPerConnection)),
		// Half of it is for those that are told what the limit is.
		grpc.MaxHeaderListSize(2 * uint32(l.HeaderSize)),
		grpc.KeepaliveParams(alive),
	}
}

// watchLimits measures until ctx ends how busy the node is and how much memory it has
// left.
func (n *Node) watchLimits(ctx context.Context) {
	n.limits.Run(ctx, limit.Relief{
		Shrink: func() {
			n.fanout.Shrink()
			if n.polling != nil {
				n.polling.server.Shrink()
			}
			n.cache.DropIdle()
		},
		EndIdle: func() {
			n.endIdlePolls()
			n.fanout.EndStreamless()
		},
		Shed: func() int {
			n.endIdlePolls()
			return n.fanout.ShedCostly()
		},
	})
}

// endIdlePolls closes the connections of polling clients that wait for no answer.
func (n *Node) endIdlePolls() {
	if n.polling != nil {
		n.polling.server.CloseIdle()
	}
}
