package limit

import "time"

// Values are the values of the limits. Zero means unlimited. They are not changed once in force;
// [Limiter.Set] replaces them.
type Values struct {
	// Connections, streams and keys per node, per source and per identity.
	Connections, ConnectionsPerSource, ConnectionsPerIdentity int
	Streams, StreamsPerSource, StreamsPerIdentity             int
	Keys, KeysPerIdentity                                     int
	// PeerConnections and PeerStreams bound connections and streams of other nodes.
	PeerConnections, PeerStreams int
	// StreamsPerConnection bounds the streams that are open at the same time.
	StreamsPerConnection int
	// Per stream, or per key. Sizes are in bytes.
	TypesPerStream, TypesPerKey    int
	NameSize, NodeSize, HeaderSize int
	// RequestsPerSecond is the rate of one stream after RequestBurst requests.
	RequestsPerSecond, RequestBurst int
	// RequestTimeout is the time from the first to the last byte of a request, frame or header
	// block. PartialSize bounds the bytes of incomplete requests on a connection.
	RequestTimeout time.Duration
	PartialSize    int
	// NewStreams is how many streams may be out of sync however busy the node is. Beyond them it
	// admits as many as it brings in sync within SyncWithin.
	NewStreams int
	SyncWithin time.Duration
	// MemoryPercent is the share of the memory limit above which streams are refused.
	MemoryPercent int
	// Linger is how long a key counts after its last stream.
	Linger time.Duration
}
