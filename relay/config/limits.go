package config

import "time"

// Limits bound what clients may use of this node. 0 means unlimited unless a field says
// otherwise. A rejected client receives the name of the limit.
type Limits struct {
	// Connections of clients, including polling clients.
	MaxConnections int `yaml:"max_connections" range:"0.." change:"live"`
	// Connections from one address, or from one IPv6 /64 network. Many clients may share
	// an address; lower the limit where they do not.
	MaxConnectionsPerSource int `yaml:"max_connections_per_source" range:"0.." change:"live"`
	// Connections of one identity, which a client certificate proves.
	MaxConnectionsPerIdentity int `yaml:"max_connections_per_identity" range:"0.." change:"live"`
	// Streams of clients, and polls in progress.
	MaxStreams int `yaml:"max_streams" range:"0.." change:"live"`
	// Streams of clients from one address.
	MaxStreamsPerSource int `yaml:"max_streams_per_source" range:"0.." change:"live"`
	// Streams of clients of one identity.
	MaxStreamsPerIdentity int `yaml:"max_streams_per_identity" range:"0.." change:"live"`
	// Concurrent streams on one connection. An Envoy without ADS opens one for each
	// cluster with EDS. A client that needs more waits or opens another connection. From
	// 1 to 1000000.
	MaxStreamsPerConnection int `yaml:"max_streams_per_connection" range:"1..1000000"`
	// Aggregation keys with upstream streams, including private ones. Each uses about
	// 89 KiB, so raise the limit together with the memory of the node.
	MaxKeys int `yaml:"max_keys" range:"0.." change:"live"`
	// Keys of one identity, or of one address where clients have no identity.
	MaxKeysPerIdentity int `yaml:"max_keys_per_identity" range:"0.." change:"live"`
	// Resource types on one stream. From 1 to 64.
	MaxTypesPerStream int `yaml:"max_types_per_stream" range:"1..64" change:"live" level:"expert"`
	// Resource types of one key. When reached, a key accepts only types that xDS
	// defines. From 1 to 256.
	MaxTypesPerKey int `yaml:"max_types_per_key" range:"1..256" change:"live" level:"expert"`
	// Names that one stream may subscribe to, and names that one request may unsubscribe
	// from or list as present on the client. At least 1.
	MaxNamesPerStream int `yaml:"max_names_per_stream" range:"1.."`
	// The total size of the names of one stream; max_names_per_stream bounds their
	// number. From 1KiB to 1GiB.
	MaxNamesSizePerStream Size `yaml:"max_names_size_per_stream" range:"1KiB..1GiB" change:"live"`
	// The largest request of a client. A reconnecting delta client lists every resource
	// that it holds: the default is enough for 200000 names of 64 bytes, each subscribed
	// and present with a version of 64 bytes, and a Node of 1MiB. From 4KiB to 1GiB.
	MaxRequestSize Size `yaml:"max_request_size" range:"4KiB..1GiB"`
	// The largest response to a client, where a response can be split: state-of-the-world
	// responses with listeners or clusters cannot. From 1KiB to 1GiB.
	MaxResponseSize Size `yaml:"max_response_size" range:"1KiB..1GiB"`
	// The largest request of a polling client. From 4KiB to 1GiB.
	MaxRESTRequestSize Size `yaml:"max_rest_request_size" range:"4KiB..1GiB" level:"expert"`
	// The largest Node of a client. From 1KiB to 64MiB.
	MaxNodeSize Size `yaml:"max_node_size" range:"1KiB..64MiB" change:"live"`
	// The headers of one stream. From 4KiB to 16MiB.
	MaxHeaderSize Size `yaml:"max_header_size" range:"4KiB..16MiB" level:"expert"`
	// Incomplete requests on one connection. When exceeded, the stream with the oldest
	// of them ends. At least 1.25 times max_request_size always applies. 0B means
	// unlimited.
	MaxPartialRequestsSize Size `yaml:"max_partial_requests_size" change:"live" level:"expert"`
	// Sustained requests per second per stream; each 64KiB of a request counts as one,
	// and so does each 16KiB of memory for new names. Excess requests are delayed, not
	// rejected.
	MaxRequestsPerSecond int `yaml:"max_requests_per_second" range:"0.." change:"live"`
	// Requests that a stream may send at once before max_requests_per_second applies. At
	// least 1.
	MaxRequestBurst int `yaml:"max_request_burst" range:"1..1000000000" change:"live"`
	// New streams that a busy node always accepts while they are not in sync. 0 turns
	// this limit off: a node then accepts all new streams.
	MaxNewStreams int `yaml:"max_new_streams" range:"0.." change:"live"`
	// Above max_new_streams, a busy node accepts as many streams as it brings in sync
	// within this time, at the measured rate. From 1s to 1m.
	NewStreamsSyncTime time.Duration `yaml:"new_streams_sync_time" range:"1s..1m" change:"live" level:"expert"`
	// The percentage of the memory limit at which the node refuses new streams and
	// empties its caches. Halfway between there and the memory limit, it closes
	// connections without a stream, then sheds clients that use far more than most. The
	// memory limit is GOMEMLIMIT, or else 90 % of what the container may use; without
	// either, this limit has no effect. From 10 to 95, or 0 for never.
	MaxMemoryPercent int `yaml:"max_memory_percent" range:"0|10..95" change:"live"`
	// The total size of keys without clients. When exceeded, the relay evicts the least
	// recently used key. Keys with clients are never evicted. 0B means that no idle key
	// is kept.
	MaxIdleKeysSize Size `yaml:"max_idle_keys_size" range:"0B.."`
	// The total size of previous contents of resources, for 'xdsrelay history --show'.
	// When exceeded, the relay drops the oldest of all keys; their names stay in the
	// history. Secrets are never kept. 0B keeps no previous contents.
	MaxHistorySize Size `yaml:"max_history_size" range:"0B.."`
	// The total size of encoded responses that clients share. At least 1MiB.
	MaxEncodedSize Size `yaml:"max_encoded_size" range:"1MiB..1048576GiB" level:"expert"`
	// The total size of encoded REST responses that polling clients share. At least
	// 1MiB.
	MaxRESTCacheSize Size `yaml:"max_rest_cache_size" range:"1MiB..1048576GiB" level:"expert"`
	// The events that the relay keeps of each stream for 'xdsrelay status CLIENT
	// --events', such as responses and their answers: the newest ones in this size. A
	// stream with few events uses less. Those of clients that have left are kept for an
	// hour, in at most 8MiB for all. From 256B to 16KiB, or 0B for no events.
	MaxClientEventsSize Size `yaml:"max_client_events_size" range:"0B|256B..16KiB" level:"expert"`
	// Connections of other nodes of the tier, which count toward no other limit. Each
	// node opens one or two.
	MaxPeerConnections int `yaml:"max_peer_connections" range:"0.." change:"live" level:"expert"`
	// Streams of other nodes of the tier, which count toward no other limit.
	MaxPeerStreams int `yaml:"max_peer_streams" range:"0.." change:"live" level:"expert"`
}

// defaultLimits are above what the clients of a node with 1 GiB need, and below what such
// a node cannot sustain; see docs/reference/limits.md.
func defaultLimits() Limits {
	return Limits{
		MaxConnections:            200_000,
		MaxConnectionsPerSource:   20_000,
		MaxConnectionsPerIdentity: 20_000,
		MaxStreams:                400_000,
		MaxStreamsPerSource:       40_000,
		MaxStreamsPerIdentity:     40_000,
		MaxStreamsPerConnection:   1_000,
		MaxKeys:                   5_000,
		MaxKeysPerIdentity:        2_000,
		MaxTypesPerStream:         32,
		MaxTypesPerKey:            64,
		MaxNamesPerStream:         200_000,
		MaxNamesSizePerStream:     16 << 20,
		MaxRequestSize:            40 << 20,
		MaxResponseSize:           4 << 20,
		MaxRESTRequestSize:        4 << 20,
		MaxNodeSize:               1 << 20,
		MaxHeaderSize:             64 << 10,
		MaxPartialRequestsSize:    64 << 20,
		MaxRequestsPerSecond:      200,
		MaxRequestBurst:           5_000,
		MaxNewStreams:             1_000,
		NewStreamsSyncTime:        10 * time.Second,
		MaxMemoryPercent:          80,
		MaxIdleKeysSize:           256 << 20,
		MaxHistorySize:            16 << 20,
		MaxEncodedSize:            256 << 20,
		MaxRESTCacheSize:          64 << 20,
		MaxClientEventsSize:       512,
		MaxPeerConnections:        10_000,
		MaxPeerStreams:            500_000,
	}
}
