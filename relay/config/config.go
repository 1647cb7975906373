// Package config is the configuration of a relay node: one YAML file, decoded
// strictly, which environment variables and flags override. A mistake is told
// with its place, the line marked, and what was expected; all mistakes at once.
//
// The structs of this file, listen.go, tls.go, authorize.go and tier.go are the only description of the fields there is: the
// comments of the default file (default.yaml), the names of the environment
// variables and what a mistake lists as known all come from here.
package config

import (
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// Config is the configuration of one node. It is a plain value, not changed
// once a node runs.
type Config struct {
	// This node.
	Node Node `yaml:"node"`
	// The side of the clients.
	Listen Listen `yaml:"listen"`
	// Further ports for clients, served like the one above and with the same limits
	// and times: a list of sections, each with a name and those fields of listen that
	// say where and how clients connect. Rules tell them apart by peer.listener.
	Listeners []OtherListener `yaml:"listeners"`
	// The port for clients that poll: REST with JSON. JSON spells everything out, so
	// an answer fails that would hold a message or field unknown to this program.
	// listen.max_names and listen.send_timeout count here, too.
	REST REST `yaml:"rest"`
	// How much clients may take of this node.
	Limits Limits `yaml:"limits"`
	// Where configuration comes from: a control plane or a directory.
	Origin Origin `yaml:"origin"`
	// Further origins, for what the one above does not serve: a list of sections
	// with the fields of origin, a name, and the authorities and types that are
	// theirs. To its clients the node is a single control plane all the same.
	Origins []OtherOrigin `yaml:"origins"`
	// Which clients share one upstream stream.
	Aggregation Aggregation `yaml:"aggregation"`
	// Whether a client may be what it says it is: a list of rules, each with a name,
	// match, a CEL expression over node, peer and listener, and maybe deny: true. They
	// are tried in order, before the client's key is known; the first that matches lets
	// the client in, or with deny refuses it. Who matches none is refused, and so is who
	// lacks what a rule reads. The word any lets in every client, as does an empty
	// list, which is allowed only where no port verifies client certificates.
	Authorize []authorize.Rule `yaml:"authorize" change:"live"`
	// When clients that have been let in are looked at again.
	Recheck Recheck `yaml:"recheck"`
	// What is kept in memory.
	Cache Cache `yaml:"cache"`
	// What is kept beyond that, for a start while the origin is down.
	LastGood LastGood `yaml:"last_good"`
	// Several nodes as one: any client may connect to any of them, and the origin
	// sees one stream for each key.
	Tier Tier `yaml:"tier"`
	// The HTTP port for operators: health, metrics, state, profiles.
	Admin Admin `yaml:"admin"`
	// The HTTP port for what watches the node: /metrics, /healthz and /readyz, and
	// nothing else. It tells nothing of keys, clients and resources, so that
	// Prometheus and kubelets may reach it from outside; only telemetry.top_keys names
	// keys there.
	Metrics Metrics `yaml:"metrics"`
	// What the node tells of itself beside the log. Where metrics and traces are sent
	// is said by the environment, as OpenTelemetry has it: OTEL_EXPORTER_OTLP_ENDPOINT
	// and so on. Prometheus reads the metrics on the admin port in any case.
	Telemetry Telemetry `yaml:"telemetry"`
	// How the node stops.
	Drain Drain `yaml:"drain" change:"live"`
	// The log, on standard error.
	Log Log `yaml:"log"`
}

// Node says which node this is.
type Node struct {
	// What the node calls itself towards clients (control_plane.identifier).
	// In a tier each node needs another. Empty means the host name; with tier.redis
	// followed by the peer port, with tier.members the name that is listed with the
	// address of this node.
	Name string `yaml:"name"`
}

// Listen is the xDS port. Rules know it by the name "default".
type Listen struct {
	Listener
	// Serves version 2 of xDS beside version 3, each on its own methods and with
	// resources of its own version: a client of version 2 needs a control plane
	// that has such resources.
	V2 bool `yaml:"v2"`
	// Serves the client status discovery service (CSDS) on this port, too. It
	// shows to whoever asks all clients of this node with their nodes, and all
	// resources of all keys but the bodies of secrets: one key's clients to
	// another's. The admin port answers the same questions in any case.
	ClientStatus bool `yaml:"client_status"`
	// Serves gRPC reflection on this port, for grpcurl and the like. It tells nothing of
	// clients or resources, but answers whoever reaches the port with hundreds of times
	// what was asked with.
	Reflection bool `yaml:"reflection"`
	// Which responses go out compressed to clients that take gzip, as gRPC libraries
	// do and Envoy does not. true means those for which that saves this node CPU time:
	// of 16KiB and more, once 16 clients have been sent the same. A size means all
	// from that size on, which saves bandwidth; from 1KiB to 1GiB. false means none.
	// Secrets and what is private to a client never are; turn it off if resources of
	// other types hold secrets beside what strangers can write.
	Compression Compression `yaml:"compression"`
	// The largest message that a client may send. A delta client that reconnects
	// lists every resource it holds: the default is enough for 200000 names of 64 bytes,
	// each subscribed to and held in a version of 64 bytes, and a Node of 1MiB. From 4KiB
	// to 1GiB.
	MaxReceiveSize Size `yaml:"max_receive_size" range:"4KiB..1GiB"`
	// The largest response sent to a client, where it can be divided: the state
	// of the world of listeners or clusters cannot. From 1KiB to 1GiB.
	MaxSendSize Size `yaml:"max_send_size" range:"1KiB..1GiB"`
	// How many names one stream may subscribe to, and one request may unsubscribe from
	// or say that the client holds. At least 1.
	MaxNames int `yaml:"max_names" range:"1.."`
	// How long a client may take for everything that comes before its first stream:
	// TLS, and the beginning of HTTP/2. At least 100ms.
	HandshakeTimeout time.Duration `yaml:"handshake_timeout" range:"100ms.."`
	// How long a stream may stay without its first request before it is ended. At
	// least 100ms.
	FirstRequestTimeout time.Duration `yaml:"first_request_timeout" range:"100ms.."`
	// How long a client may take no data before its stream is ended. The time runs
	// while a response waits behind an earlier one of 64KiB or more; one that lies
	// unread alone holds nobody up. At least 100ms.
	SendTimeout time.Duration `yaml:"send_timeout" range:"100ms.."`
	// How long a response waits for its ACK or NACK before newer state is sent
	// without it. At least 100ms.
	AckTimeout time.Duration `yaml:"ack_timeout" range:"100ms.."`
	// The minimum time between two responses with changes of a type to a client, for
	// control planes that change it many times in a second: each as Type=duration, like
	// ClusterLoadAssignment=200ms, which is the advice for endpoints; from 10ms to 5s. The
	// first change after a quiet time is sent at once, and later ones as one response at
	// the end of the interval. It delays no first state, no name that a client asks for, no
	// change that another type waits for, and no poll. Empty means none.
	MinInterval []string `yaml:"min_interval" change:"live"`
	// How long a stream that had no answer yet waits for an origin that cannot
	// be reached. It is then ended with UNAVAILABLE, so that the client can fall
	// back; gRPC clients take 15s of silence for absence. At least 100ms.
	OriginTimeout time.Duration `yaml:"origin_timeout" range:"100ms.."`
	// When the clients of a connection are told to connect again, so that none
	// stays where it once was for ever: each at a time of its own, after half of
	// this at the earliest. At least 1m. 0s means never.
	MaxConnectionAge time.Duration `yaml:"max_connection_age" range:"0s|1m.."`
}

// REST is the port for clients that poll.
type REST struct {
	// Where it listens, as host:port. Port 0 takes a free one. Empty turns it off.
	Address string `yaml:"address"`
	// Must be true to listen on anything but loopback without TLS, as for listen.
	Plaintext bool `yaml:"plaintext"`
	// The port's certificate, and whose certificates clients show.
	TLS ServerTLS `yaml:"tls"`
	// How long a poll whose version is current waits for news before it is told
	// that there are none. Less than the client's timeout, which is 1s in Envoy. 0s
	// means not at all. At most 5m.
	Hold time.Duration `yaml:"hold" range:"0s..5m"`
	// The largest request that a client may send. From 4KiB to 1GiB.
	MaxReceiveSize Size `yaml:"max_receive_size" range:"4KiB..1GiB"`
	// What encoded answers, shared by clients, may hold together. At least 1MiB.
	BodiesSize Size `yaml:"bodies_size" range:"1MiB..1048576GiB"`
	// For how long a client that polls is shown in the status after its last poll: it
	// has no connection that would tell when it is gone. It is three of the client's own
	// pauses if that is longer, at most 1h; so this only has to be longer than the
	// first pause. From 1s to 1h.
	Remember time.Duration `yaml:"remember" range:"1s..1h"`
}

// Origin is where configuration comes from. Either Addresses or Directory is set.
type Origin struct {
	// The control plane's addresses, the preferred one first; a later one serves
	// while no better one can be reached. Each is host:port, dns:///host:port or
	// unix:PATH. Either this or directory is required.
	Addresses []string `yaml:"addresses"`
	// How the connections are secured; they are plaintext unless something is said here.
	TLS OriginTLS `yaml:"tls"`
	// A file with a token of 16 bytes at least, which the control plane is shown with
	// each stream, as "authorization: Bearer TOKEN": like that of a service account,
	// for a control plane that knows its clients by it. In it is the first line, as it
	// is then. Takes tls.
	TokenFile string `yaml:"token_file"`
	// A directory of files with resources (.yaml, .json, .txtpb, .pb), followed as
	// it changes; it takes the place of a control plane. Relative to the working
	// directory. Symbolic links in it must be relative and lead to files in it, as
	// those of a mounted ConfigMap do.
	Directory string `yaml:"directory"`
	// A directory in which any change is the sign to read directory again; that
	// one is then not watched itself. For content behind a symbolic link that is
	// swapped further up. Empty means that directory itself is watched.
	WatchedDirectory string `yaml:"watched_directory"`
	// Which variant of xDS is spoken with the control plane: sotw (state of the
	// world) or delta (incremental). Clients may use either in any case.
	Variant Variant `yaml:"variant"`
	// Which version of the xDS transport is spoken with the control plane: v3, or
	// v2 for one that knows no other. Resources of either version may be asked for
	// over both.
	Transport Transport `yaml:"transport"`
	// How a wildcard subscription is written: legacy (no names where possible,
	// which every control plane understands) or star (always "*").
	WildcardForm WildcardForm `yaml:"wildcard_form"`
	// The largest response taken from the control plane. From 4KiB to 1GiB.
	MaxReceiveSize Size `yaml:"max_receive_size" range:"4KiB..1GiB"`
	// The largest request sent to the control plane. Requests of the delta variant are
	// divided; gRPC servers accept 4MiB by default. From 64KiB to 1GiB.
	MaxSendSize Size `yaml:"max_send_size" range:"64KiB..1GiB"`
	// What the names of one type may take together that the clients of one key ask for.
	// When exceeded, names without a resource of the client that asks for most are dropped,
	// and if it has too few of them, the request is refused. With variant sotw, whose
	// requests cannot be divided, no more than fits in max_send_size. From 64KiB to 1GiB.
	MaxNamesSize Size `yaml:"max_names_size" range:"64KiB..1GiB"`
	// How long one attempt to connect may take. At least 100ms.
	ConnectTimeout time.Duration `yaml:"connect_timeout" range:"100ms.."`
	// How long the control plane may take no requests before the stream is ended.
	// At least 100ms.
	SendTimeout time.Duration `yaml:"send_timeout" range:"100ms.."`
	// How long a connection may be silent before it gets a keepalive ping of gRPC. At
	// least 10s; 0s turns pings off. By default, gRPC servers permit a ping every 5m and
	// end connections with more (too_many_pings); the relay then pings every 5m30s. In
	// any case TCP probes show within about a minute that the other side is gone.
	Keepalive time.Duration `yaml:"keepalive" range:"0s|10s.."`
	// How long the answer to that ping may take. At least 1s.
	KeepaliveTimeout time.Duration `yaml:"keepalive_timeout" range:"1s.."`
	// How long a connected control plane may be silent about a name that a client
	// asked for before the client is told that it does not exist. At least 100ms.
	AbsentAfter time.Duration `yaml:"absent_after" range:"100ms.."`
	// The pause before a new attempt, where the last one got no response.
	Backoff Backoff `yaml:"backoff"`
	// The authorities of structured names (xdstp://AUTHORITY/...) that are served
	// from here; "" is the empty one. A single origin that lists none serves all of
	// them. Otherwise names of an authority that no origin lists do not exist, and
	// nobody is asked for them.
	Authorities []string `yaml:"authorities"`
	// Types whose names are asked for on a stream of their own, apart from the
	// wildcard: for a control plane that serves by name what is not in its
	// wildcard set, which clients of the wildcard must not get. Each is a type URL
	// or its last part, like Cluster.
	SeparateNames []string `yaml:"separate_names"`
}

// OtherOrigin is an origin that serves a part of what clients ask for.
type OtherOrigin struct {
	// What it is called in the log, in metrics and on the admin pages: letters,
	// digits, - and _. Required, and not "default", which is origin.
	Name string `yaml:"name"`
	// The types that are served from here instead of from origin, each a type URL
	// or its last part, like Secret. Structured names go by their authority all
	// the same.
	Types []string `yaml:"types"`
	Origin
}

// Backoff is an exponential backoff with jitter. A response resets it.
type Backoff struct {
	// The first pause. At least 10ms.
	Initial time.Duration `yaml:"initial" range:"10ms.."`
	// By how much each pause is longer than the one before. From 1 to 10.
	Multiplier float64 `yaml:"multiplier" range:"1..10"`
	// The share by which a pause is longer or shorter at random. From 0 to 0.9.
	Jitter float64 `yaml:"jitter" range:"0..0.9"`
	// The longest pause, before jitter. At least as long as initial.
	Max time.Duration `yaml:"max"`
}

// Aggregation maps clients to keys.
type Aggregation struct {
	// Tried in order; the first that matches gives the client's key, and a client
	// that none matches is refused. Empty means one rule: key node.cluster.
	Rules []aggregation.Rule `yaml:"rules" change:"live"`
	// Types that each client gets over an upstream stream of its own, which shows
	// the client's own node id: for what a control plane makes for single clients,
	// like secrets. By type URL, or the last part of it, like Secret. Nothing of
	// it is shared or kept, and it is not served to clients that poll.
	PrivateTypes []string `yaml:"private_types"`
}

// Cache says what stays in memory, and for how long.
type Cache struct {
	// How long names and keys that no client wants any more stay subscribed
	// upstream, so that a client that reconnects finds them fresh. 0s means not
	// at all.
	Linger time.Duration `yaml:"linger" range:"0s.."`
	// What keys without clients may hold together; the one unused for longest goes
	// first. A key with clients is never dropped. 0B means that nothing is kept.
	IdleSize Size `yaml:"idle_size" range:"0B.."`
	// How long a key that was idle asks its origin before its first client gets
	// what is in memory. 0s means not at all.
	Hold time.Duration `yaml:"hold" range:"0s.."`
	// How many removed resources each type of a key remembers at least; a client
	// that is further behind starts over. At least 1.
	Tombstones int `yaml:"tombstones" range:"1.."`
	// How many updates each type of a key remembers, in about 150 bytes each, for
	// 'xdsrelay history'. From 0, which means none, to 10000.
	History int `yaml:"history" range:"0..10000"`
	// How many percent of a complete set (clusters, listeners, scoped routes) one
	// answer of an origin may remove. Where it would remove more, or all, its
	// removals are held back, with what they refer to, and an alarm is raised; what is
	// held back already counts as removed. From 0, which means any number, and a warning
	// in the log, to 100.
	MaxRemovalPercent int `yaml:"max_removal_percent" range:"0..100"`
	// How long removals are held back, unless the origin takes them back. Where it is
	// out of reach when that time is over, they are held back for as long again. 0s
	// means until an operator releases them.
	RemovalHold time.Duration `yaml:"removal_hold" range:"0s.."`
	// What encoded responses, shared by clients, may hold together. At least 1MiB.
	BodiesSize Size `yaml:"bodies_size" range:"1MiB..1048576GiB"`
}

// Metrics is the port for what watches the node.
type Metrics struct {
	// Where it listens, as host:port; without TLS. Port 0 takes a free one. Empty
	// turns it off: the admin port has the same three pages.
	Address string `yaml:"address"`
}

// Telemetry says what metrics and traces show.
type Telemetry struct {
	// How many keys have metrics of their own, with the key as a label: those with the
	// most clients. 0 means none. At most 1000.
	TopKeys int `yaml:"top_keys" range:"0..1000"`
	// How many clients of each update that is traced have a span of their own, at most
	// 16. Which updates are traced is said by OTEL_TRACES_SAMPLER.
	ClientSpans int `yaml:"client_spans" range:"0..16"`
}

// Drain is what happens between SIGTERM and the end.
type Drain struct {
	// The time over which clients are sent away, a few at a time, so that they do
	// not come to the other nodes all at once. 0s ends them all immediately. The
	// default leaves room in the 30 seconds that Kubernetes gives a pod.
	Time time.Duration `yaml:"time" range:"0s.."`
	// How long after that the rest may take before it is cut off.
	Grace time.Duration `yaml:"grace" range:"0s.."`
}

// Log says what is logged, and how.
type Log struct {
	// The least level that is logged: debug, info, warn or error.
	Level Level `yaml:"level" change:"live"`
	// The level of single parts, where it is another one: each as part=level, like
	// origin=debug. The parts are clients, grpc (what grpc-go itself says of its
	// connections), last_good, node, origin, redis, security and tier.
	Levels []string `yaml:"levels" change:"live"`
	// Either text or json.
	Format Format `yaml:"format"`
	// How many lines are written in a minute that say the same, of whatever client or
	// key; the next one tells how many were left out. What is for debugging is always
	// written. 0 means that all is.
	Repeats int `yaml:"repeats" range:"0.."`
}

// Default returns the configuration where nothing is configured. It lacks an
// origin.
func Default() *Config {
	return &Config{
		Listen: Listen{
			Listener:            defaultListen(),
			Compression:         CompressionOn,
			MaxReceiveSize:      40 << 20,
			MaxSendSize:         4 << 20,
			MaxNames:            200_000,
			HandshakeTimeout:    10 * time.Second,
			FirstRequestTimeout: 10 * time.Second,
			SendTimeout:         30 * time.Second,
			AckTimeout:          30 * time.Second,
			OriginTimeout:       8 * time.Second,
			MaxConnectionAge:    12 * time.Hour,
		},
		REST:        REST{TLS: ServerTLS{Certificates: defaultCertificates()}, Hold: 900 * time.Millisecond, MaxReceiveSize: 4 << 20, BodiesSize: 64 << 20, Remember: time.Minute},
		Limits:      defaultLimits(),
		Origin:      DefaultOrigin(),
		Aggregation: Aggregation{Rules: []aggregation.Rule{aggregation.DefaultRule()}},
		Recheck:     defaultRecheck(),
		Cache: Cache{
			Linger:      time.Minute,
			IdleSize:    256 << 20,
			Hold:        time.Second,
			Tombstones:  1024,
			History:     20,
			RemovalHold: 5 * time.Minute,
			BodiesSize:  256 << 20,
		},
		LastGood:  defaultLastGood(),
		Tier:      defaultTier(),
		Admin:     Admin{Address: "127.0.0.1:19000", TLS: ServerTLS{Certificates: defaultCertificates()}},
		Telemetry: Telemetry{ClientSpans: 3},
		Drain:     Drain{Time: 20 * time.Second, Grace: 5 * time.Second},
		Log:       Log{Level: LevelInfo, Format: FormatText, Repeats: 60},
	}
}

// DefaultOrigin returns an origin where nothing is configured. It says nowhere
// where it is.
func DefaultOrigin() Origin {
	return Origin{
		TLS:              OriginTLS{TLS: TLS{Certificates: defaultCertificates()}},
		Variant:          Delta,
		Transport:        V3,
		WildcardForm:     WildcardLegacy,
		MaxReceiveSize:   64 << 20,
		MaxSendSize:      3 << 20,
		MaxNamesSize:     16 << 20,
		ConnectTimeout:   5 * time.Second,
		SendTimeout:      30 * time.Second,
		Keepalive:        330 * time.Second,
		KeepaliveTimeout: 10 * time.Second,
		AbsentAfter:      15 * time.Second,
		Backoff:          Backoff{Initial: time.Second, Multiplier: 1.6, Jitter: 0.2, Max: 30 * time.Second},
	}
}
