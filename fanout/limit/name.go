package limit

import (
	"strings"

	"xdsrelay/fanout/rejection"
)

// Name identifies a limit.
type Name int

// The limits, in the order of the documentation.
const (
	Connections Name = iota
	ConnectionsPerSource
	ConnectionsPerIdentity
	StreamsPerConnection
	Streams
	StreamsPerSource
	StreamsPerIdentity
	NewStreams
	Memory
	Keys
	KeysPerIdentity
	TypesPerStream
	TypesPerKey
	Names
	NameSize
	KeyNames
	MessageSize
	NodeSize
	HeaderSize
	Requests
	RequestTimeout
	PartialSize
	Handshake
	FirstRequest
	SendTimeout
	Idle
	Pings
	PeerConnections
	PeerStreams
	OperatorConnections

	names int = iota
)

// About describes a limit.
type About struct {
	// Label is the name of the limit in the log; empty if rejections cannot be counted.
	Label string
	// Field is the configuration field; empty for a limit that is not configurable and has the
	// value Fixed.
	Field, Fixed string
	// Texts for the documentation: the bounded quantity (What), the consequence of exceeding the
	// limit (Exceeded), and the reason for the limit (Protects).
	What, Exceeded, Protects string
}

const (
	exhausted = "`RESOURCE_EXHAUSTED`"
	orMoves   = exhausted + ", and GOAWAY where there are other nodes"
)

var about = [names]About{
	Connections:            {"connections", "limits.max_connections", "", "client connections to this node, polling clients included", exhausted + " on the first stream, then the connection is closed; with TLS, and when very many arrive at once, it is closed without a status", "file descriptors and memory: 24 KiB per connection"},
	ConnectionsPerSource:   {"connections_per_source", "limits.max_connections_per_source", "", "connections from one address; for IPv6, from one /64", "the same", "the node from one address that opens connections without end: 470 MiB"},
	ConnectionsPerIdentity: {"connections_per_identity", "limits.max_connections_per_identity", "", "connections of one identity (a SPIFFE ID or another name of a client certificate), each counted from its first stream or poll", exhausted + "; the connection of a polling client is closed", "the node from one identity, whatever its addresses"},
	StreamsPerConnection:   {"streams_per_connection", "limits.max_streams_per_connection", "", "concurrent streams on one connection (SETTINGS_MAX_CONCURRENT_STREAMS)", "clients wait or open another connection; otherwise `REFUSED_STREAM`", "memory of one connection: 8 KiB per stream"},
	Streams:                {"streams", "limits.max_streams", "", "client streams on this node, and polls that wait", orMoves, "memory and goroutines"},
	StreamsPerSource:       {"streams_per_source", "limits.max_streams_per_source", "", "client streams from one address", exhausted, "the share of all other clients"},
	StreamsPerIdentity:     {"streams_per_identity", "limits.max_streams_per_identity", "", "client streams of one identity", exhausted, "the share of all other clients"},
	NewStreams:             {"new_streams", "limits.max_new_streams", "", "streams that are not in sync yet while the node is busy: this number, or as many as the node brings in sync within limits.new_streams_sync_time at the measured rate", orMoves, "the time to sync after a mass reconnect"},
	Memory:                 {"memory", "limits.max_memory_percent", "", "percentage of the memory limit (GOMEMLIMIT, or 90 % of the container's memory) in use before the node refuses new streams and empties caches. Halfway from there to the limit, it closes connections without a stream, then sheds the clients that use the most. It also accepts at most one connection per 48 KiB of the limit", orMoves, "the process from the kernel's out-of-memory killer"},
	Keys:                   {"keys", "limits.max_keys", "", "aggregation keys with upstream streams, private ones included", exhausted, "memory, 60 KiB per key: 293 MiB; streams to the control plane"},
	KeysPerIdentity:        {"keys_per_identity", "limits.max_keys_per_identity", "", "keys of one identity, or of one address for clients without an identity. A key counts until the linger time after its last client", exhausted, "the keys of other clients from a client that invents keys: 117 MiB"},
	TypesPerStream:         {"types_per_stream", "limits.max_types_per_stream", "", "resource types on one stream", exhausted, "memory of one stream"},
	TypesPerKey:            {"types_per_key", "limits.max_types_per_key", "", "resource types of one key; when it is reached, only types that xDS defines are added", exhausted, "memory of one key, and the stream to the control plane"},
	Names:                  {"names", "limits.max_names_per_stream", "", "names that one stream subscribes to, and names that one request unsubscribes from or lists in initial_resource_versions. A request may have 1,000 resource locators and dynamic parameters", exhausted, "memory, 240 bytes plus its length per name: 58 MiB for one stream with names of 64 bytes"},
	NameSize:               {"name_size", "limits.max_names_size_per_stream", "", "bytes of the names of one stream", exhausted, "memory, and the size of upstream requests"},
	KeyNames:               {"key_names", "upstream.max_names_size", "", "bytes of the subscribed names of one type and key. When exceeded, the client with the most names loses its newest ones without a resource, if the request is from a client with fewer names. So one client cannot use up the limit of its key. With `upstream.variant: sotw` the names also have to fit in one request (`upstream.max_request_size`)", exhausted, "the stream to the control plane, which accepts requests up to a size"},
	MessageSize:            {"message_size", "limits.max_request_size", "", "bytes of one request; twice that for the names and versions that one stream reports for types without any known state", exhausted, "memory of a request before it is checked"},
	NodeSize:               {"node_size", "limits.max_node_size", "", "bytes of the Node in a first request", exhausted, "memory: the node keeps the fields that rules, status and authorization need"},
	HeaderSize:             {"header_size", "limits.max_header_size", "", "bytes of the headers of one stream, as HTTP/2 counts them", exhausted + "; above twice the limit `FRAME_SIZE_ERROR`, unless the client knows the setting and refuses by itself", "memory before a stream is admitted"},
	Requests:               {"requests", "limits.max_requests_per_second", "", "sustained requests per second of one stream, after a burst of limits.max_request_burst. Each 64KiB of a request counts as one, and so does each 16KiB of memory for new names", "excess requests are delayed by flow control, not rejected", "CPU, and the memory of names that linger after a client unsubscribed"},
	RequestTimeout:         {"request_timeout", "downstream.request_timeout", "", "time from the first byte of a request to its last, and the same for a frame and for the headers of a stream", "`ENHANCE_YOUR_CALM` on the stream, which gRPC clients report as `RESOURCE_EXHAUSTED`; an incomplete frame or incomplete headers close the connection with it, since they block all other streams", "memory of requests that never become complete"},
	PartialSize:            {"partial_size", "limits.max_partial_requests_size", "", "bytes of incomplete requests on one connection", "`ENHANCE_YOUR_CALM` on the stream with the oldest incomplete request", "memory of requests that are sent in many pieces at once"},
	Handshake:              {"", "downstream.handshake_timeout", "", "time from accepting a connection to the end of its TLS and HTTP/2 handshakes", "the connection is closed", "connections and goroutines from silent peers"},
	FirstRequest:           {"first_request", "downstream.first_request_timeout", "", "time from opening a stream to its first request", "`DEADLINE_EXCEEDED`", "streams from silent clients"},
	SendTimeout:            {"send_timeout", "downstream.send_timeout", "", "time without reading after which a client's stream ends", "`DEADLINE_EXCEEDED`", "memory of responses that are not read"},
	Idle:                   {"idle_timeout", "downstream.idle_timeout", "", "time that a connection may be without a stream", "GOAWAY", "connections, which cost 24 KiB even without a stream"},
	Pings:                  {"pings", "", "5s", "minimum time between two pings on one connection; two pings may be closer", "GOAWAY with `ENHANCE_YOUR_CALM`, and the connection is closed", "CPU"},
	PeerConnections:        {"peer_connections", "limits.max_peer_connections", "", "connections of other nodes of the tier; at most a tenth of them, and at least 100, from one address", "the same as for `limits.max_connections`", "memory before a peer has sent its token"},
	PeerStreams:            {"peer_streams", "limits.max_peer_streams", "", "streams of other nodes of the tier", exhausted, "memory"},
	OperatorConnections:    {"operator_connections", "", "256", "connections to the admin port, and the same number to the metrics port; 64 of each from one address", "the connection is closed", "memory and file descriptors; load on one port does not affect the other"},
}

// where returns what the limit rejects, as a label of [rejection.Metric].
func (n Name) where() rejection.Where {
	switch n {
	case Connections, ConnectionsPerSource, ConnectionsPerIdentity, Handshake, Idle, Pings:
		return rejection.Connection
	case StreamsPerConnection, Streams, StreamsPerSource, StreamsPerIdentity, NewStreams, Memory, Keys, KeysPerIdentity, HeaderSize, FirstRequest, SendTimeout:
		return rejection.Stream
	case PeerConnections, PeerStreams:
		return rejection.Peer
	case OperatorConnections:
		return rejection.Admin
	default:
		return rejection.Request
	}
}

// Where returns what the limit rejects as a label value; empty if nothing is counted, since the limit
// only delays or cannot be observed.
func (n Name) Where() string {
	if about[n].Label == "" || n == Requests {
		return ""
	}
	return string(n.where())
}

// Reason returns the label value of [rejection.Metric] for the limit: the last part of its
// configuration field.
func (n Name) Reason() string {
	if field := about[n].Field; field != "" {
		return field[strings.LastIndexByte(field, '.')+1:]
	}
	return about[n].Label
}

// String returns the name of the limit in the log.
func (n Name) String() string { return about[n].Label }

// About returns the description of the limit.
func (n Name) About() About { return about[n] }

// All returns all limits.
func All() []Name {
	all := make([]Name, names)
	for i := range all {
		all[i] = Name(i)
	}
	return all
}
