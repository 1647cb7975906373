package config

import "time"

// Limits are how much clients may take of this node. 0 means any number, where nothing
// else is said. Whoever is refused is told which limit it was.
type Limits struct {
	// Connections of clients, those of clients that poll included.
	Connections int `yaml:"connections" range:"0.." change:"live"`
	// The same from one address, or from one IPv6 network of 64 bits. Many clients may
	// be behind one address; lower it where none are.
	ConnectionsPerSource int `yaml:"connections_per_source" range:"0.." change:"live"`
	// The same of one identity, which is what a client certificate proves.
	ConnectionsPerIdentity int `yaml:"connections_per_identity" range:"0.." change:"live"`
	// Streams of clients, and polls that are being answered.
	Streams int `yaml:"streams" range:"0.." change:"live"`
	// The same from one address.
	StreamsPerSource int `yaml:"streams_per_source" range:"0.." change:"live"`
	// The same of one identity.
	StreamsPerIdentity int `yaml:"streams_per_identity" range:"0.." change:"live"`
	// Streams that are open at the same time on one connection. An Envoy without ADS
	// has one for each cluster with EDS. A client that wants more waits, or opens
	// another connection. From 1 to 1000000.
	StreamsPerConnection int `yaml:"streams_per_connection" range:"1..1000000"`
	// Aggregation keys that are asked for upstream, private ones included. Each takes
	// about 89 KiB, so raise it with the memory of the node.
	Keys int `yaml:"keys" range:"0.." change:"live"`
	// The same of one identity, or of one address where clients have no identity.
	KeysPerIdentity int `yaml:"keys_per_identity" range:"0.." change:"live"`
	// Resource types on one stream. From 1 to 64.
	TypesPerStream int `yaml:"types_per_stream" range:"1..64" change:"live"`
	// Resource types of one key, beyond which none is added that xDS does not define.
	// From 1 to 256.
	TypesPerKey int `yaml:"types_per_key" range:"1..256" change:"live"`
	// What the names of one stream may take together; listen.max_names bounds how many
	// there may be. From 1KiB to 1GiB.
	NameSize Size `yaml:"name_size" range:"1KiB..1GiB" change:"live"`
	// The largest Node that a client may send. From 1KiB to 64MiB.
	NodeSize Size `yaml:"node_size" range:"1KiB..64MiB" change:"live"`
	// The headers of one stream. From 4KiB to 16MiB.
	HeaderSize Size `yaml:"header_size" range:"4KiB..16MiB"`
	// Sustained requests per second per stream; each 64KiB of a request counts as one, and
	// so does each 16KiB that new names take in memory. Excess requests are delayed, not
	// rejected.
	RequestsPerSecond int `yaml:"requests_per_second" range:"0.." change:"live"`
	// How many it may send at once before that. At least 1.
	RequestBurst int `yaml:"request_burst" range:"1..1000000000" change:"live"`
	// How long a client may take for one request, from its first byte to its last, and
	// for one frame or the headers of a stream. At least 1s, and twice as long as
	// requests_per_second makes a client wait after a request of listen.max_receive_size,
	// if that is more. 0s means for ever.
	RequestTimeout time.Duration `yaml:"request_timeout" range:"0s|1s.." change:"live"`
	// What may have arrived of requests that are not complete, on one connection. When
	// exceeded, the stream with the oldest of them ends. At least a quarter more than
	// listen.max_receive_size applies.
	PartialSize Size `yaml:"partial_size" change:"live"`
	// New streams that a node lets in however busy it is, as long as they are not in
	// sync. 0 turns this limit off: a node then takes as many at a time as come.
	NewStreams int `yaml:"new_streams" range:"0.." change:"live"`
	// While a node is busy it lets in as many beyond that as it brings in sync within
	// this time, at the rate that it is measured to. From 1s to 1m.
	SyncWithin time.Duration `yaml:"sync_within" range:"1s..1m" change:"live"`
	// How long a connection may be without a stream. At least 1m. 0s means for ever.
	IdleTimeout time.Duration `yaml:"idle_timeout" range:"0s|1m.."`
	// The part of the memory limit, in percent, from which no new streams are let in
	// and caches are emptied. Halfway from there to the limit connections without a
	// stream end, and then clients that cost far more than most are shed. The limit is
	// GOMEMLIMIT, or else 90 % of what the container may use; without one nothing
	// happens. From 10 to 95, or 0 for never.
	MemoryPercent int `yaml:"memory_percent" range:"0|10..95" change:"live"`
	// Connections of other nodes of a tier, which none of the above counts. Each has
	// one or two to this one.
	PeerConnections int `yaml:"peer_connections" range:"0.." change:"live"`
	// Streams of other nodes of a tier, likewise.
	PeerStreams int `yaml:"peer_streams" range:"0.." change:"live"`
}

// defaultLimits are above what a fleet of a node with 1 GiB needs, and below what such a
// node cannot bear; see docs/limits.md.
func defaultLimits() Limits {
	return Limits{
		Connections:            200_000,
		ConnectionsPerSource:   20_000,
		ConnectionsPerIdentity: 20_000,
		Streams:                400_000,
		StreamsPerSource:       40_000,
		StreamsPerIdentity:     40_000,
		StreamsPerConnection:   1_000,
		Keys:                   5_000,
		KeysPerIdentity:        2_000,
		TypesPerStream:         32,
		TypesPerKey:            64,
		NameSize:               16 << 20,
		NodeSize:               1 << 20,
		HeaderSize:             64 << 10,
		RequestsPerSecond:      200,
		RequestBurst:           5_000,
		RequestTimeout:         30 * time.Second,
		PartialSize:            64 << 20,
		NewStreams:             1_000,
		SyncWithin:             10 * time.Second,
		IdleTimeout:            10 * time.Minute,
		MemoryPercent:          80,
		PeerConnections:        10_000,
		PeerStreams:            500_000,
	}
}
