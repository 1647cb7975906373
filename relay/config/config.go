// Package config is the configuration of a relay node: one YAML file, decoded
// strictly, which environment variables and flags override. Load reports all mistakes
// at once, each with its place, the marked line, and what was expected.
//
// The structs of this package are the only description of the fields: the comments of
// the default file (default.yaml), the reference page, the JSON Schema and the names of
// the environment variables are generated from them. These tags describe a field:
//
//   - yaml is its name in the file
//   - range bounds its value, see checkRanges
//   - change:"live" says that a change takes effect while the node runs, for the field
//     or the whole section; all other fields need a restart
//   - level:"expert" marks a field that operators set only with support
package config

import (
	"time"

	"xdsrelay/relay/aggregation"
)

// Config is the configuration of one node. It is a plain value, not changed
// once a node runs.
type Config struct {
	// This node.
	Node Node `yaml:"node"`
	// The port for xDS clients. Use either this section or listeners. Rules see its
	// name as "default".
	Listener Listener `yaml:"listener"`
	// Several ports for xDS clients, instead of listener: a list of sections with a
	// name and the fields of listener. All ports share downstream and limits. Rules
	// read the name of the port as peer.listener.
	Listeners []NamedListener `yaml:"listeners"`
	// How the relay serves clients, on all ports.
	Downstream Downstream `yaml:"downstream"`
	// The port for polling clients: REST with JSON. A request fails if its response
	// holds a message or field that this version does not know. The limits
	// limits.max_names_per_stream and downstream.send_timeout also apply here.
	REST REST `yaml:"rest"`
	// Bounds on what clients may use of this node. 0 means unlimited unless a field
	// states another meaning. A rejected client receives the name of the limit.
	Limits Limits `yaml:"limits"`
	// The control plane or directory that serves the configuration. Use either this
	// section or upstreams.
	Upstream Upstream `yaml:"upstream"`
	// Several control planes or directories, instead of upstream: a list of sections
	// with a name, the fields of upstream, and the types that each serves. The first
	// entry serves all types that no other entry lists. Clients see one control plane.
	Upstreams []NamedUpstream `yaml:"upstreams"`
	// Which clients share one upstream stream.
	Aggregation Aggregation `yaml:"aggregation"`
	// Which clients may connect, and which Node each may claim.
	Authorization Authorization `yaml:"authorization"`
	// What the relay keeps in memory.
	Cache Cache `yaml:"cache"`
	// Holding back mass removals, for a control plane that loses its data.
	RemovalGuard RemovalGuard `yaml:"removal_guard"`
	// Configuration kept across restarts, for a start while the control plane is down.
	LastKnownGood LastKnownGood `yaml:"last_known_good"`
	// Staged release of changes (experimental): a change reaches a few clients first, and
	// the others once those stay well. It applies to the clients of the aggregation rules
	// with a rollout.
	Rollout Rollout `yaml:"rollout" change:"live"`
	// Several nodes as one tier: a client may connect to any node, and the control
	// plane sees one stream per key.
	Tier Tier `yaml:"tier"`
	// The HTTP port for operators: health, metrics, state, profiles. By default, it
	// listens on loopback and needs no credentials. Other addresses require tls, and a
	// token or client certificates.
	Admin Admin `yaml:"admin"`
	// The HTTP port for monitoring: /metrics, /healthz and /readyz only. It exposes no
	// keys, clients or resources, so Prometheus and kubelets may reach it from outside.
	// Exception: telemetry.top_keys puts names of keys into metrics.
	Metrics Metrics `yaml:"metrics"`
	// What metrics and traces show. The environment variables of OpenTelemetry, such as
	// OTEL_EXPORTER_OTLP_ENDPOINT, set where they are sent. Prometheus can always scrape
	// the admin port.
	Telemetry Telemetry `yaml:"telemetry"`
	// How the node stops.
	Drain Drain `yaml:"drain" change:"live"`
	// The log, on standard error.
	Log Log `yaml:"log"`
}

// Node identifies this node.
type Node struct {
	// The name of this node, sent to clients as control_plane.identifier. Unique in a
	// tier. Empty means the host name; with tier.redis, the host name and the peer
	// port; with tier.nodes, the name listed with an address of this node.
	Name string `yaml:"name"`
}

// REST is the port for polling clients.
type REST struct {
	// The address, as host:port. Port 0 selects a free port. Empty turns the port off.
	Address string `yaml:"address"`
	// Allows an address other than loopback without TLS, as for listener.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// The certificate of the port, and the client certificates it accepts.
	TLS ServerTLS `yaml:"tls"`
	// How long a poll with the current version waits for a change before it gets the
	// response that nothing changed. Keep it below the client's timeout, which is 1s in
	// Envoy. 0s means no wait. At most 5m.
	PollTimeout time.Duration `yaml:"poll_timeout" range:"0s..5m"`
	// How long the status shows a polling client after its last poll. Three of the
	// client's own intervals apply if that is longer, at most 1h, so this only has to
	// exceed the first interval. From 1s to 1h.
	ClientTTL time.Duration `yaml:"client_ttl" range:"1s..1h" level:"expert"`
}

// Upstream is a control plane or a directory. Either Addresses or Directory is set.
type Upstream struct {
	// The addresses of the control plane, the preferred one first. The relay uses a
	// later address while it cannot reach an earlier one. Each is host:port,
	// dns:///host:port or unix:PATH. Either this or directory is required.
	Addresses []string `yaml:"addresses"`
	// TLS to the control plane. Connections are plaintext unless this section is set.
	TLS UpstreamTLS `yaml:"tls"`
	// A file with a token of at least 16 bytes, such as that of a service account. The
	// relay sends it with each stream as "authorization: Bearer TOKEN". It uses the
	// first line and re-reads the file for each new stream. Requires tls.
	TokenFile string `yaml:"token_file"`
	// A directory of resource files (.yaml, .json, .txtpb, .pb) instead of a control
	// plane. The relay follows its changes. A relative path starts at the working
	// directory. Symbolic links must be relative and lead to files inside, as in a
	// mounted ConfigMap.
	Directory string `yaml:"directory"`
	// A directory whose changes make the relay read directory again, which is then not
	// watched itself. Use it for content behind a symbolic link that is swapped higher
	// up. Empty means that the relay watches directory.
	WatchedDirectory string `yaml:"watched_directory"`
	// The xDS variant of streams to the control plane: sotw (state of the world) or
	// delta (incremental). Clients may use either variant.
	Variant Variant `yaml:"variant"`
	// The version of the xDS transport protocol: v3, or v2 for a control plane that
	// knows no other. Both carry resources of either version.
	XDSVersion XDSVersion `yaml:"xds_version"`
	// How the relay writes a wildcard subscription: legacy (no names where possible,
	// which every control plane understands) or star (always "*").
	WildcardForm WildcardForm `yaml:"wildcard_form" level:"expert"`
	// The largest response that the relay accepts from the control plane. From 4KiB to
	// 1GiB.
	MaxResponseSize Size `yaml:"max_response_size" range:"4KiB..1GiB"`
	// The largest request that the relay sends to the control plane. The relay splits
	// requests of the delta variant. gRPC servers accept 4MiB by default. From 64KiB to
	// 1GiB.
	MaxRequestSize Size `yaml:"max_request_size" range:"64KiB..1GiB" level:"expert"`
	// The total size of the names of one type that the clients of one key subscribe to.
	// When exceeded, the relay drops names without a resource of the client with the
	// most names; if those do not suffice, it rejects the request. With variant sotw,
	// whose requests cannot be split, names must also fit in max_request_size. From
	// 64KiB to 1GiB.
	MaxNamesSize Size `yaml:"max_names_size" range:"64KiB..1GiB" level:"expert"`
	// The timeout of one connection attempt. At least 100ms.
	ConnectTimeout time.Duration `yaml:"connect_timeout" range:"100ms.."`
	// How long the control plane may read no requests before the relay ends the stream.
	// At least 100ms.
	SendTimeout time.Duration `yaml:"send_timeout" range:"100ms.." level:"expert"`
	// How long a connection may be silent before the relay sends a gRPC keepalive ping.
	// At least 10s; 0s turns pings off. The default of 5m30s respects gRPC servers,
	// which by default allow one ping every 5m and close connections with more
	// (too_many_pings). TCP probes always detect a lost peer within about a minute.
	KeepaliveInterval time.Duration `yaml:"keepalive_interval" range:"0s|10s.."`
	// How long the relay waits for the response to a keepalive ping. At least 1s.
	KeepaliveTimeout time.Duration `yaml:"keepalive_timeout" range:"1s.." level:"expert"`
	// How long a connected control plane may send nothing about a requested name before
	// the relay reports to the client that the resource does not exist. At least 100ms.
	ResourceTimeout time.Duration `yaml:"resource_timeout" range:"100ms.."`
	// The pause before the next attempt, after an attempt without a response.
	Backoff Backoff `yaml:"backoff"`
	// The authorities of structured names (xdstp://AUTHORITY/...) that this upstream
	// serves; "" is the empty authority. A single upstream that lists none serves all
	// of them. Otherwise, names of an unlisted authority do not exist, and the relay
	// requests them from no upstream.
	Authorities []string `yaml:"authorities"`
	// Types for whose names the relay opens a separate stream, apart from the wildcard.
	// Use it for a control plane that serves by name what is not in its wildcard set,
	// and what wildcard clients must not receive. Each is a type URL or its last part,
	// like Cluster.
	SeparateNames []string `yaml:"separate_names"`
}

// NamedUpstream is one of several upstreams.
type NamedUpstream struct {
	// The name of this upstream in the log, in metrics and on the admin pages: letters,
	// digits, - and _. Required and unique.
	Name string `yaml:"name"`
	// The types that this upstream serves instead of the first one, each a type URL or
	// its last part, like Secret. Empty for the first upstream. The authority of a
	// structured name takes precedence over its type.
	Types []string `yaml:"types"`
	Upstream
}

// Backoff is an exponential backoff with jitter. A response resets it.
type Backoff struct {
	// The first pause. At least 10ms.
	Initial time.Duration `yaml:"initial" range:"10ms.." level:"expert"`
	// The factor between one pause and the next. From 1 to 10.
	Multiplier float64 `yaml:"multiplier" range:"1..10" level:"expert"`
	// The share by which a pause varies at random. From 0 to 0.9.
	Jitter float64 `yaml:"jitter" range:"0..0.9" level:"expert"`
	// The longest pause, before jitter. At least initial.
	Max time.Duration `yaml:"max" level:"expert"`
}

// Aggregation maps clients to keys.
type Aggregation struct {
	// The rules that compute the aggregation key of a client, in order. The first rule
	// that matches applies; the relay refuses clients that match none. Empty means one
	// rule with the key node.cluster.
	Rules []aggregation.Rule `yaml:"rules" change:"live"`
	// Types for which each client has an upstream stream of its own that carries the
	// client's node id. Use it for resources that a control plane makes for single
	// clients, such as secrets. By type URL or its last part, like Secret. The relay
	// neither shares nor stores these resources, nor serves them to polling clients.
	PrivateTypes []string `yaml:"private_types"`
}

// Cache configures what stays in memory, and for how long.
type Cache struct {
	// How long names and keys stay subscribed upstream after the last client
	// unsubscribes, so that a reconnecting client finds them current. 0s turns this off.
	Linger time.Duration `yaml:"linger" range:"0s.."`
	// How long a key that was idle waits for the control plane to confirm its content
	// before its first client gets what is in memory. 0s means no wait.
	ConfirmTimeout time.Duration `yaml:"confirm_timeout" range:"0s.." level:"expert"`
	// The least number of removed resources that each type of a key remembers. A client
	// that is further behind receives the full state. At least 1.
	Tombstones int `yaml:"tombstones" range:"1.." level:"expert"`
	// The number of updates that each type of a key remembers for 'xdsrelay history',
	// about 200 bytes each and up to 30 names. From 0, which means none, to 10000.
	History int `yaml:"history" range:"0..10000"`
}

// RemovalGuard configures holding back mass removals.
type RemovalGuard struct {
	// The percentage of a complete set (clusters, listeners, scoped routes) that one
	// response may remove. When exceeded, or if the response removes everything, the
	// relay holds back its removals and what they refer to, and raises an alarm.
	// Removals that are held back count as removed. From 0, which allows any number and
	// only logs a warning, to 100.
	MaxPercent int `yaml:"max_percent" range:"0..100"`
	// How long the relay holds back removals unless the control plane restores the
	// resources. If the control plane is unreachable when the time ends, it starts
	// again. 0s means until an operator approves them.
	Hold time.Duration `yaml:"hold" range:"0s.."`
}

// Metrics is the port for monitoring.
type Metrics struct {
	// The address, as host:port, without TLS. Port 0 selects a free port. Empty turns
	// the port off: the admin port serves the same three pages.
	Address string `yaml:"address"`
}

// Telemetry configures what metrics and traces show.
type Telemetry struct {
	// The number of keys with metrics of their own, labeled with the key: those with
	// the most clients. 0 means none. At most 1000.
	TopKeys int `yaml:"top_keys" range:"0..1000"`
	// The number of clients with a span of their own in each traced update, at most 16.
	// OTEL_TRACES_SAMPLER selects the traced updates.
	ClientSpans int `yaml:"client_spans" range:"0..16"`
	// The URL of a trace in the program that shows your traces, http or https: the live page
	// replaces {trace_id} and links updates to it. Empty means no links.
	TraceURL string `yaml:"trace_url"`
}

// Drain configures what happens between SIGTERM and the end.
type Drain struct {
	// The time over which the node ends the streams of clients, a few at a time, so that
	// clients do not all reconnect to other nodes at once. 0s ends all immediately. The
	// default fits in the 30 seconds that Kubernetes grants a pod.
	Duration time.Duration `yaml:"duration" range:"0s.."`
	// How long the remaining streams may take after that before the node cuts them off.
	Grace time.Duration `yaml:"grace" range:"0s.."`
}

// Log configures the log.
type Log struct {
	// The lowest level that is logged: debug, info, warn or error.
	Level Level `yaml:"level" change:"live"`
	// Levels of single parts, each as part=level, like upstream=debug. The parts are
	// clients, grpc (the messages of grpc-go about its connections), last_known_good,
	// node, redis, security, tier and upstream.
	Levels []string `yaml:"levels" change:"live"`
	// The format of log lines: text or json.
	Format Format `yaml:"format"`
	// The number of lines with the same message per minute, for any client or key. The
	// next line reports how many were omitted. Debug lines are exempt. 0 means
	// unlimited.
	MaxRepeatsPerMinute int `yaml:"max_repeats_per_minute" range:"0.." level:"expert"`
}

// Default returns the default configuration. It lacks an upstream.
func Default() *Config {
	return &Config{
		Listener:      defaultPort(),
		Downstream:    defaultDownstream(),
		REST:          REST{TLS: ServerTLS{Certificates: clientCertificates()}, PollTimeout: 900 * time.Millisecond, ClientTTL: time.Minute},
		Limits:        defaultLimits(),
		Upstream:      DefaultUpstream(),
		Aggregation:   Aggregation{Rules: []aggregation.Rule{aggregation.DefaultRule()}},
		Authorization: Authorization{RecheckInterval: 5 * time.Minute},
		Cache:         Cache{Linger: time.Minute, ConfirmTimeout: time.Second, Tombstones: 1024, History: 20},
		RemovalGuard:  RemovalGuard{Hold: 5 * time.Minute},
		LastKnownGood: defaultLastKnownGood(),
		Rollout:       defaultRollout(),
		Tier:          defaultTier(),
		Admin:         Admin{Address: "127.0.0.1:19000", TLS: ServerTLS{Certificates: defaultCertificates()}},
		Telemetry:     Telemetry{ClientSpans: 3},
		Drain:         Drain{Duration: 20 * time.Second, Grace: 5 * time.Second},
		Log:           Log{Level: LevelInfo, Format: FormatText, MaxRepeatsPerMinute: 60},
	}
}

// DefaultUpstream returns the defaults of an upstream. It lacks addresses and a
// directory.
func DefaultUpstream() Upstream {
	return Upstream{
		TLS:               UpstreamTLS{TLS: TLS{Certificates: defaultCertificates()}},
		Variant:           Delta,
		XDSVersion:        V3,
		WildcardForm:      WildcardLegacy,
		MaxResponseSize:   64 << 20,
		MaxRequestSize:    3 << 20,
		MaxNamesSize:      16 << 20,
		ConnectTimeout:    5 * time.Second,
		SendTimeout:       30 * time.Second,
		KeepaliveInterval: 330 * time.Second,
		KeepaliveTimeout:  10 * time.Second,
		ResourceTimeout:   15 * time.Second,
		Backoff:           Backoff{Initial: time.Second, Multiplier: 1.6, Jitter: 0.2, Max: 30 * time.Second},
	}
}

// AllUpstreams returns the entries of upstreams, or else the section upstream under the
// name [DefaultName]. The first serves all types that no other lists.
func (c *Config) AllUpstreams() []NamedUpstream {
	if len(c.Upstreams) > 0 {
		return c.Upstreams
	}
	return []NamedUpstream{{Name: DefaultName, Upstream: c.Upstream}}
}

// UpstreamPath is the path of the upstream at index i of [Config.AllUpstreams].
func (c *Config) UpstreamPath(i int) string {
	return pathOf("upstream", len(c.Upstreams) > 0, i)
}
