package limit

import "time"

// Values are how much there may be. Zero means any number. They are not changed once
// they are in force; others may take their place ([Limiter.Set]).
type Values struct {
	// Connections, streams and keys of the node, and of each source and identity.
	Connections, ConnectionsPerSource, ConnectionsPerIdentity int
	Streams, StreamsPerSource, StreamsPerIdentity             int
	Keys, KeysPerIdentity                                     int
	// PeerConnections and PeerStreams are those of other nodes.
	PeerConnections, PeerStreams int
	// StreamsPerConnection may be open at the same time.
	StreamsPerConnection int
	// Of one stream, or of one key.
	TypesPerStream, TypesPerKey    int
	NameSize, NodeSize, HeaderSize int
	// RequestsPerSecond of one stream, after RequestBurst of them.
	RequestsPerSecond, RequestBurst int
	// RequestTimeout is for one request, frame or block of headers, from its first byte
	// to its last; PartialSize for what has come on one connection of requests that are
	// not complete.
	RequestTimeout time.Duration
	PartialSize    int
	// NewStreams that are not in sync yet are let in however busy the node is, and
	// beyond them as many as it brings in sync within SyncWithin.
	NewStreams int
	SyncWithin time.Duration
	// MemoryPercent of the memory limit may be in use before streams are refused.
	MemoryPercent int
	// Linger is how long a key stays in use without clients.
	Linger time.Duration
}
