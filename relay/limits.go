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
		Connections: l.MaxConnections, ConnectionsPerSource: l.MaxConnectionsPerSource, ConnectionsPerIdentity: l.MaxConnectionsPerIdentity,
		Streams: l.MaxStreams, StreamsPerSource: l.MaxStreamsPerSource, StreamsPerIdentity: l.MaxStreamsPerIdentity,
		Keys: l.MaxKeys, KeysPerIdentity: l.MaxKeysPerIdentity, PeerConnections: l.MaxPeerConnections, PeerStreams: l.MaxPeerStreams,
		StreamsPerConnection: l.MaxStreamsPerConnection,
		TypesPerStream:       l.MaxTypesPerStream, TypesPerKey: l.MaxTypesPerKey,
		NameSize: int(l.MaxNamesSizePerStream), NodeSize: int(l.MaxNodeSize), HeaderSize: int(l.MaxHeaderSize),
		RequestsPerSecond: l.MaxRequestsPerSecond, RequestBurst: l.MaxRequestBurst,
		RequestTimeout: requestTimeout(cfg), PartialSize: partialSize(cfg),
		NewStreams: l.MaxNewStreams, SyncWithin: l.NewStreamsSyncTime, MemoryPercent: l.MaxMemoryPercent,
		Linger: cfg.Cache.Linger,
	}
}

// requestTimeout leaves time for the turn of a request that follows the largest one with
// the most names: until that is paid for nothing is read.
func requestTimeout(cfg *config.Config) time.Duration {
	l, least := cfg.Limits, cfg.Downstream.RequestTimeout
	if least == 0 || l.MaxRequestsPerSecond == 0 {
		return least
	}
	names := limit.NameCost(l.MaxNamesPerStream*cache.NameCost + int(l.MaxNamesSizePerStream))
	tokens := limit.Cost(int(l.MaxRequestSize)) + max(names-l.MaxRequestBurst, 0)
	turn := time.Duration(tokens) * time.Second / time.Duration(l.MaxRequestsPerSecond)
	return max(least, 2*turn)
}

// partialSize leaves room for the largest request, and for what its pieces take beyond
// their bytes.
func partialSize(cfg *config.Config) int {
	if cfg.Limits.MaxPartialRequestsSize == 0 {
		return 0
	}
	return int(max(cfg.Limits.MaxPartialRequestsSize, cfg.Limits.MaxRequestSize+cfg.Limits.MaxRequestSize/4))
}

// clientOptions are the limits that gRPC itself holds, on the ports for clients.
func (n *Node) clientOptions() []grpc.ServerOption {
	l := n.cfg.Limits
	alive := fanout.KeepaliveParams()
	alive.MaxConnectionIdle = n.cfg.Downstream.IdleTimeout
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(uint32(l.MaxStreamsPerConnection)),
		// Half of it is for those that are told what the limit is.
		grpc.MaxHeaderListSize(2 * uint32(l.MaxHeaderSize)),
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
			n.cache.DropHistory()
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
