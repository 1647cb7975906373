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
	Connections:            {"connections", "limits.connections", "", "connections of clients to this node, polling clients included", exhausted + " on the first stream, then the connection is closed; with TLS, and where very many arrive at once, it is closed without a status", "file descriptors and memory: 24 KiB for each connection"},
	ConnectionsPerSource:   {"connections_per_source", "limits.connections_per_source", "", "connections from one address; of IPv6, from one /64", "the same", "the node from one address that connects without end: 470 MiB"},
	ConnectionsPerIdentity: {"connections_per_identity", "limits.connections_per_identity", "", "connections of one identity, a SPIFFE id or another name of a client certificate, each from its first stream or poll on", exhausted + "; the connection of a polling client is closed", "the same from one identity, whatever its addresses"},
	StreamsPerConnection:   {"streams_per_connection", "limits.streams_per_connection", "", "streams open at the same time on one connection (SETTINGS_MAX_CONCURRENT_STREAMS)", "clients wait or open another connection by themselves; otherwise `REFUSED_STREAM`", "memory that one connection takes: 8 KiB for each stream"},
	Streams:                {"streams", "limits.streams", "", "streams of clients on this node, and polls that wait", orMoves, "memory and goroutines"},
	StreamsPerSource:       {"streams_per_source", "limits.streams_per_source", "", "the same from one address", exhausted, "the places of all other clients"},
	StreamsPerIdentity:     {"streams_per_identity", "limits.streams_per_identity", "", "the same of one identity", exhausted, "the places of all other clients"},
	NewStreams:             {"new_streams", "limits.new_streams", "", "streams that are not in sync yet, while the node is busy: so many, or as many as it brings in sync within limits.sync_within at the measured rate", orMoves, "the time until clients are in sync after many reconnect at once"},
	Memory:                 {"memory", "limits.memory_percent", "", "the percentage of the memory limit (GOMEMLIMIT, or 90 % of what the container has) that may be in use before new streams are refused and caches are emptied; halfway from there to the limit, connections without a stream end, then the most expensive clients are shed. There may also be no more connections than one for each 48 KiB of the limit: more are refused, and connections without a stream end to make room", orMoves, "the process from the kernel's out-of-memory killer"},
	Keys:                   {"keys", "limits.keys", "", "aggregation keys that have upstream streams, private ones included", exhausted, "memory, 89 KiB for each key: 435 MiB; streams to the control plane"},
	KeysPerIdentity:        {"keys_per_identity", "limits.keys_per_identity", "", "keys of one identity, or of one address where clients have no identity; a key counts until the linger time after its last client", exhausted, "the keys of all others from one client that invents them: 174 MiB"},
	TypesPerStream:         {"types_per_stream", "limits.types_per_stream", "", "resource types asked for on one stream", exhausted, "memory of one stream"},
	TypesPerKey:            {"types_per_key", "limits.types_per_key", "", "resource types that the clients of one key ask for; when it is reached, only types that xDS defines are added", exhausted, "memory of one key, and the stream to the control plane"},
	Names:                  {"names", "listen.max_names", "", "names that one stream subscribes to, and those that one request unsubscribes from or says that the client holds; of resource locators and their parameters, a request may have 1,000", exhausted, "memory, 240 bytes and its length for each name: 58 MiB for one stream with names of 64 bytes"},
	NameSize:               {"name_size", "limits.name_size", "", "bytes of these names", exhausted, "memory, and the size of upstream requests"},
	KeyNames:               {"key_names", "origin.max_names_size", "", "bytes of the names of one type that the clients of one key ask for together; beyond it the newest names without a resource are dropped of the client that asks for most names, if the new client asks for fewer, so that one client cannot use up the bound of its key; with `origin.variant: sotw` also what fits in one request (`origin.max_send_size`)", exhausted, "the stream to the control plane, which accepts requests up to a size"},
	MessageSize:            {"message_size", "listen.max_receive_size", "", "bytes of one request; twice as many of what one stream says it holds of types of which nothing is known yet", exhausted, "memory that one request takes before it is looked at"},
	NodeSize:               {"node_size", "limits.node_size", "", "bytes of the Node in a first request", exhausted, "memory: the node keeps what rules, status and authorization need of it"},
	HeaderSize:             {"header_size", "limits.header_size", "", "bytes of the headers of one stream, as HTTP/2 counts them", exhausted + "; when more than twice the limit `FRAME_SIZE_ERROR`, unless the client knows the setting and refuses by itself", "memory before a stream is admitted"},
	Requests:               {"requests", "limits.requests_per_second", "", "requests per second of one stream, after limits.request_burst of them; each 64KiB of a request count as another one, and each 16KiB that new names take in memory", "excess requests are delayed: flow control holds the client up", "CPU, and the memory of names that linger after a client has dropped them"},
	RequestTimeout:         {"request_timeout", "limits.request_timeout", "", "time from the first byte of a request to its last, and the same of a frame and of the headers of a stream", "`ENHANCE_YOUR_CALM` on the stream, which gRPC clients take for `RESOURCE_EXHAUSTED`; half a frame and half the headers, which nothing of another stream can follow, end the connection so", "memory of requests that never become complete"},
	PartialSize:            {"partial_size", "limits.partial_size", "", "bytes that have arrived on one connection of requests that are not complete", "`ENHANCE_YOUR_CALM` on the stream with the oldest of them", "memory of requests that are sent in many pieces at once"},
	Handshake:              {"", "listen.handshake_timeout", "", "time from accepting a connection to the end of its TLS and HTTP/2 handshakes", "closed", "connections and goroutines from peers that say nothing"},
	FirstRequest:           {"first_request", "listen.first_request_timeout", "", "time from opening a stream to its first request", "`DEADLINE_EXCEEDED`", "streams from clients that say nothing"},
	SendTimeout:            {"send_timeout", "listen.send_timeout", "", "time that a client may take to read", "`DEADLINE_EXCEEDED`", "memory of responses that nobody reads"},
	Idle:                   {"idle_timeout", "limits.idle_timeout", "", "time that a connection may be without a stream", "GOAWAY", "connections, which cost 24 KiB also without a stream"},
	Pings:                  {"pings", "", "5s", "time between two pings on one connection, two of which may be nearer to each other", "GOAWAY with `ENHANCE_YOUR_CALM`, and the connection is closed", "CPU"},
	PeerConnections:        {"peer_connections", "limits.peer_connections", "", "connections of other nodes of the tier to this one; a tenth of them, and 100 at least, may be from one address", "the same as for `limits.connections`", "memory, before a peer has shown its token"},
	PeerStreams:            {"peer_streams", "limits.peer_streams", "", "streams of other nodes of the tier on this one", exhausted, "memory"},
	OperatorConnections:    {"operator_connections", "", "256", "connections to the admin port, and as many to the metrics port; 64 of them from one address", "closed", "memory and file descriptors; a port that anybody may reach, such as that for metrics, leaves the other alone"},
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
