package config

import "time"

// Tier makes several nodes one. Without Redis and without a list of nodes, a node is
// on its own.
type Tier struct {
	// The Redis through which nodes find one another, agree on versions and keep the
	// last known good configuration. A node continues to serve without it.
	Redis Redis `yaml:"redis"`
	// All nodes of the tier, including this one, for a tier without Redis: each as
	// name=host:port, with the name of the node and the address of its peer port.
	Nodes []string `yaml:"nodes"`
	// How long a silent node stays in the tier and keeps its keys. From 1s to 5m.
	Lease time.Duration `yaml:"lease" range:"1s..5m"`
	// The port for the other nodes.
	Peer Peer `yaml:"peer"`
	// How long the owner of a key may be unreachable before this node opens its own
	// stream to the control plane. At least 100ms.
	OwnerTimeout time.Duration `yaml:"owner_timeout" range:"100ms.."`
	// How long a client that holds newer state waits when this node knows from the tier
	// that its own state is old. 0s means no wait. At most 1m.
	NewerStateTimeout time.Duration `yaml:"newer_state_timeout" range:"0s..1m" level:"expert"`
	// Allows each node its own upstream addresses, such as the replicas of the control
	// plane in its zone. Otherwise, the relay warns about nodes whose addresses differ, as
	// for all settings that the nodes of a tier must share.
	OwnUpstreamAddresses bool `yaml:"own_upstream_addresses"`
	// How clients are balanced over the nodes.
	Balance Balance `yaml:"balance"`
}

// Redis is the shared store, and how nodes connect to it.
type Redis struct {
	// redis://[user[:password]@]host:port[/database], rediss:// for TLS, or
	// unix://PATH. Append further addresses of a cluster or of sentinels as
	// ?addr=host:port&addr=host:port. Empty means no Redis.
	URL string `yaml:"url"`
	// The kind of the addresses: one server (standalone), sentinels (sentinel) or the
	// masters of a cluster (cluster).
	Mode RedisMode `yaml:"mode"`
	// The name of the master that the sentinels watch.
	MasterName string `yaml:"master_name"`
	// A file with the password, which keeps it out of the URL.
	PasswordFile string `yaml:"password_file"`
	// A file with the password of the sentinels.
	SentinelPasswordFile string `yaml:"sentinel_password_file"`
	// TLS to Redis, for URLs with rediss://.
	TLS TLS `yaml:"tls"`
	// The prefix of all names in Redis: tiers that share a Redis need different
	// prefixes. Letters, digits, - and _.
	Prefix string `yaml:"prefix"`
	// The timeout of one call. At least 10ms.
	Timeout time.Duration `yaml:"timeout" range:"10ms.." level:"expert"`
}

// Peer is the port for the other nodes of the tier. Nodes prove to one another that
// they are peers: by certificates of the authority in tls.ca_file, by SPIFFE ids, by the
// token, or by several of these.
type Peer struct {
	// The address, as host:port. Port 0 selects a free port. Required in a tier.
	Address string `yaml:"address"`
	// The address at which the other nodes reach it, as host:port. Empty means address.
	AdvertiseAddress string `yaml:"advertise_address"`
	// TLS for both sides: all nodes present and accept certificates of one authority, or
	// with the SPIFFE ids in spiffe_ids.
	TLS TLS `yaml:"tls"`
	// A file with a secret that all nodes share, of at least 16 bytes. With several
	// secrets, one per line, a node sends the first and accepts all, which allows
	// rotation.
	TokenFile string `yaml:"token_file"`
	// Allows an address other than loopback without TLS. Everyone who sees the traffic
	// can then read all configuration, and the token.
	AllowPlaintext bool `yaml:"allow_plaintext"`
}

// Balance configures how clients are balanced over the nodes of a tier.
type Balance struct {
	// Whether nodes with more than their share of the clients shed some. Turn it off
	// where a load balancer in front of the tier balances the clients.
	Enabled bool `yaml:"enabled"`
	// The percentage by which a node may exceed its share of the clients. From 1 to
	// 1000.
	HeadroomPercent int `yaml:"headroom_percent" range:"1..1000" level:"expert"`
	// The percentage above its share at which a node refuses new streams. More than
	// headroom_percent.
	RefusePercent int `yaml:"refuse_percent" level:"expert"`
	// The percentage of the surplus that a node sheds per minute. From 1 to 100.
	ShedPercentPerMinute int `yaml:"shed_percent_per_minute" range:"1..100" level:"expert"`
}

// LastKnownGood is the configuration of each key that is kept beyond the life of the
// nodes, so that a tier that starts while its control plane is down can serve it.
type LastKnownGood struct {
	// The store: redis, directory or none.
	Store LastKnownGoodStore `yaml:"store"`
	// The directory of the store, for this node alone.
	Directory string `yaml:"directory"`
	// A file with the encryption keys: one per line, as ID:KEY with 32 bytes in base64.
	// The first key encrypts, all decrypt. Without it, nothing is encrypted. Secrets are
	// then not kept, nor is a type of a key while one of its resources may hold a secret,
	// such as an inline key or text.
	EncryptionKeysFile string `yaml:"encryption_keys_file"`
	// How long after a change the relay writes it. Later changes wait for the next
	// write. At least 100ms.
	WriteDelay time.Duration `yaml:"write_delay" range:"100ms.." level:"expert"`
	// The largest size of one type of a key, compressed; uncompressed, four times as
	// much, at most 1GiB. The relay neither stores nor restores larger ones. From 4KiB
	// to 512MiB.
	MaxSize Size `yaml:"max_size" range:"4KiB..512MiB" level:"expert"`
}

// On reports whether the node is one of several.
func (t Tier) On() bool { return t.Redis.URL != "" || len(t.Nodes) > 0 }

// defaultTier is no tier.
func defaultTier() Tier {
	return Tier{
		Redis:             Redis{Mode: Standalone, Prefix: "xdsrelay", TLS: TLS{Certificates: defaultCertificates()}, Timeout: 500 * time.Millisecond},
		Lease:             10 * time.Second,
		Peer:              Peer{TLS: TLS{Certificates: defaultCertificates()}},
		OwnerTimeout:      2 * time.Second,
		NewerStateTimeout: 5 * time.Second,
		Balance:           Balance{Enabled: true, HeadroomPercent: 10, RefusePercent: 50, ShedPercentPerMinute: 10},
	}
}

// defaultLastKnownGood keeps nothing.
func defaultLastKnownGood() LastKnownGood {
	return LastKnownGood{Store: StoreNone, WriteDelay: time.Second, MaxSize: 64 << 20}
}

// RedisMode is what the addresses of a Redis are.
type RedisMode string

// The modes.
const (
	Standalone RedisMode = "standalone"
	Sentinel   RedisMode = "sentinel"
	Cluster    RedisMode = "cluster"
)

// UnmarshalText takes the name of a mode.
func (m *RedisMode) UnmarshalText(text []byte) error {
	return oneOf(m, text, Standalone, Sentinel, Cluster)
}

// LastKnownGoodStore is where the last known good state is kept.
type LastKnownGoodStore string

// The stores.
const (
	StoreNone      LastKnownGoodStore = "none"
	StoreRedis     LastKnownGoodStore = "redis"
	StoreDirectory LastKnownGoodStore = "directory"
)

// UnmarshalText takes the name of a store.
func (s *LastKnownGoodStore) UnmarshalText(text []byte) error {
	return oneOf(s, text, StoreNone, StoreRedis, StoreDirectory)
}
