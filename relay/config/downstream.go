package config

import "time"

// Downstream configures how the relay serves clients, on all ports.
type Downstream struct {
	// Serves version 2 of xDS in addition to version 3, each on its own methods and with
	// resources of its own version. A client of version 2 needs a control plane with
	// such resources.
	XDSV2 bool `yaml:"xds_v2"`
	// Serves the client status discovery service (CSDS) on the ports for clients, too.
	// It shows all clients of this node with their Nodes, and all resources of all keys
	// except the contents of secrets, to every client. The admin port always serves it.
	CSDS bool `yaml:"csds"`
	// Serves gRPC reflection on the ports for clients, for tools such as grpcurl. It
	// exposes no clients or resources, but its responses are hundreds of times larger
	// than its requests.
	Reflection bool `yaml:"reflection"`
	// gzip compression of responses to clients that accept it, as gRPC libraries do and
	// Envoy does not. Secrets and private types are never compressed. Turn it off if
	// resources of other types combine secrets with text that untrusted parties choose.
	Compression Compression `yaml:"compression"`
	// How long a client may take for the TLS handshake and the start of HTTP/2. At least
	// 100ms.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout" range:"100ms.." level:"expert"`
	// How long a new stream may stay without its first request before the relay ends it.
	// At least 100ms.
	FirstRequestTimeout time.Duration `yaml:"first_request_timeout" range:"100ms.." level:"expert"`
	// How long a client may take for one request, from its first byte to its last, and
	// for one frame or the headers of a stream. At least 1s. Twice the delay that
	// limits.max_requests_per_second imposes after a request of limits.max_request_size
	// applies if that is longer. 0s means unlimited.
	RequestTimeout time.Duration `yaml:"request_timeout" range:"0s|1s.." change:"live" level:"expert"`
	// How long a client may read no data before the relay ends its stream. The time runs
	// while a response waits behind an earlier one of 64KiB or more; a single unread
	// response blocks no others. At least 100ms.
	SendTimeout time.Duration `yaml:"send_timeout" range:"100ms.." level:"expert"`
	// How long a response waits for its ACK or NACK before the relay sends newer state
	// without it. At least 100ms.
	AckTimeout time.Duration `yaml:"ack_timeout" range:"100ms.." level:"expert"`
	// The minimum time between two responses with changes of a type to one client, for
	// control planes that change a type many times per second. Each is Type=duration,
	// like ClusterLoadAssignment=200ms, the recommended value for endpoints; from 10ms
	// to 5s. The relay sends the first change after a quiet time at once, and coalesces
	// later ones until the interval ends. It never delays the first state, newly
	// requested names, changes that another type waits for, or polls. Empty means none.
	MinInterval []string `yaml:"min_interval" change:"live"`
	// How long a stream without any response waits for an unreachable control plane.
	// Then it ends with UNAVAILABLE, so that the client can fall back; gRPC clients
	// treat 15s of silence as a missing resource. At least 100ms.
	UpstreamTimeout time.Duration `yaml:"upstream_timeout" range:"100ms.."`
	// How long a connection may be without a stream. At least 1m. 0s means unlimited.
	IdleTimeout time.Duration `yaml:"idle_timeout" range:"0s|1m.." level:"expert"`
	// The age at which a connection is asked to reconnect, so that clients spread over
	// all nodes. Each connection gets a random age between half of this and all of it.
	// At least 1m. 0s means never.
	MaxConnectionAge time.Duration `yaml:"max_connection_age" range:"0s|1m.."`
}

// Compression configures which responses are compressed.
type Compression struct {
	// Mode auto compresses where that saves CPU time on this node: responses of 16KiB and
	// more, once 16 clients have received the same one. Mode always compresses all
	// responses from min_size, which saves bandwidth. Mode never turns compression off.
	Mode CompressionMode `yaml:"mode"`
	// The smallest response that mode always compresses. From 1KiB to 1GiB.
	MinSize Size `yaml:"min_size" range:"1KiB..1GiB" level:"expert"`
}

func defaultDownstream() Downstream {
	return Downstream{
		Compression:         Compression{Mode: CompressionAuto, MinSize: 16 << 10},
		HandshakeTimeout:    10 * time.Second,
		FirstRequestTimeout: 10 * time.Second,
		RequestTimeout:      30 * time.Second,
		SendTimeout:         30 * time.Second,
		AckTimeout:          30 * time.Second,
		UpstreamTimeout:     8 * time.Second,
		IdleTimeout:         10 * time.Minute,
		MaxConnectionAge:    12 * time.Hour,
	}
}
