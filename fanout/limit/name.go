package limit

// Name is one of the limits.
type Name int

// The limits. Their order is that of the documentation.
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

	names int = iota
)

// About is what there is to know of a limit.
type About struct {
	// Label is the limit's value of the label limit of xdsrelay.refused; empty where
	// refusals cannot be counted there.
	Label string
	// Field is where it is configured; empty where it is not, and is Fixed.
	Field, Fixed string
	// What is bounded, and Told what happens beyond.
	What, Told string
}

const exhausted = "`RESOURCE_EXHAUSTED`"

var about = [names]About{
	Connections:            {"connections", "limits.connections", "", "connections of clients to this node, those of clients that poll included", exhausted + " on the first stream, and the connection is closed; with TLS, and where very many come at once, it is just closed"},
	ConnectionsPerSource:   {"connections_per_source", "limits.connections_per_source", "", "connections from one address; of IPv6, from one /64", "the same"},
	ConnectionsPerIdentity: {"connections_per_identity", "limits.connections_per_identity", "", "connections of one identity, a SPIFFE id or another name of a client certificate, each from its first stream or poll on", exhausted + "; of a client that polls the connection is closed"},
	StreamsPerConnection:   {"streams_per_connection", "limits.streams_per_connection", "", "streams open at the same time on one connection (SETTINGS_MAX_CONCURRENT_STREAMS)", "clients wait or open another connection by themselves; who does not gets `REFUSED_STREAM`"},
	Streams:                {"streams", "limits.streams", "", "streams of clients on this node, and polls that wait", exhausted + ", and GOAWAY where there are other nodes"},
	StreamsPerSource:       {"streams_per_source", "limits.streams_per_source", "", "the same from one address", exhausted},
	StreamsPerIdentity:     {"streams_per_identity", "limits.streams_per_identity", "", "the same of one identity", exhausted},
	NewStreams:             {"new_streams", "limits.new_streams", "", "streams that are not in sync yet, while the node is busy: so many, or as many as it brings in sync within limits.sync_within at the rate that it is measured to do so", exhausted + ", and GOAWAY where there are other nodes"},
	Memory:                 {"memory", "limits.memory_percent", "", "the percentage of the memory limit (GOMEMLIMIT, or 90 % of what the container has) that may be in use before new streams are refused and caches are emptied; halfway from there to the limit, the most expensive clients are sent away one after the other", exhausted + ", and GOAWAY where there are other nodes"},
	Keys:                   {"keys", "limits.keys", "", "aggregation keys that have upstream streams, private ones included", exhausted},
	KeysPerIdentity:        {"keys_per_identity", "limits.keys_per_identity", "", "keys of one identity, or of one address where clients have no identity; a key counts until the linger time after its last client", exhausted},
	TypesPerStream:         {"types_per_stream", "limits.types_per_stream", "", "resource types asked for on one stream", exhausted},
	TypesPerKey:            {"types_per_key", "limits.types_per_key", "", "resource types that the clients of one key ask for, beyond which none that xDS does not define is added", exhausted},
	Names:                  {"names", "listen.max_names", "", "names that one stream subscribes to", exhausted},
	NameSize:               {"name_size", "limits.name_size", "", "bytes of these names", exhausted},
	MessageSize:            {"message_size", "listen.max_receive_size", "", "bytes of one request; twice as many of what one stream says it holds of types of which nothing is known yet", exhausted},
	NodeSize:               {"node_size", "limits.node_size", "", "bytes of the Node in a first request", exhausted},
	HeaderSize:             {"header_size", "limits.header_size", "", "bytes of the headers of one stream, as HTTP/2 counts them", exhausted + "; beyond twice as much `FRAME_SIZE_ERROR`, unless the client knows the setting and refuses by itself"},
	Requests:               {"requests", "limits.requests_per_second", "", "requests per second of one stream, after limits.request_burst of them; each 64KiB of a request count as another one", "read no faster: the client is held up by flow control"},
	RequestTimeout:         {"request_timeout", "limits.request_timeout", "", "time from the first byte of a request to its last, and the same of a frame and of the headers of a stream", "`ENHANCE_YOUR_CALM` on the stream, which gRPC clients take for `RESOURCE_EXHAUSTED`; half a frame and half the headers, which nothing of another stream can follow, end the connection so"},
	PartialSize:            {"partial_size", "limits.partial_size", "", "bytes that have come on one connection of requests that are not complete", "`ENHANCE_YOUR_CALM` on the stream with the oldest of them"},
	Handshake:              {"", "listen.handshake_timeout", "", "time from accepting a connection to the end of its TLS and HTTP/2 handshakes", "closed"},
	FirstRequest:           {"first_request", "listen.first_request_timeout", "", "time from opening a stream to its first request", "`DEADLINE_EXCEEDED`"},
	SendTimeout:            {"send_timeout", "listen.send_timeout", "", "time that a client may take to read", "`DEADLINE_EXCEEDED`"},
	Idle:                   {"idle_timeout", "limits.idle_timeout", "", "time that a connection may be without a stream", "GOAWAY"},
	Pings:                  {"pings", "", "5s", "time between two pings on one connection, two of which may come sooner", "GOAWAY with `ENHANCE_YOUR_CALM`, and the connection is closed"},
	PeerConnections:        {"peer_connections", "limits.peer_connections", "", "connections of other nodes of the tier to this one; a tenth of them, and 100 at least, may be from one address", "the same as beyond `limits.connections`"},
	PeerStreams:            {"peer_streams", "limits.peer_streams", "", "streams of other nodes of the tier on this one", exhausted},
}

// String is the limit's label.
func (n Name) String() string { return about[n].Label }

// About describes the limit.
func (n Name) About() About { return about[n] }

// All returns all limits.
func All() []Name {
	all := make([]Name, names)
	for i := range all {
		all[i] = Name(i)
	}
	return all
}
