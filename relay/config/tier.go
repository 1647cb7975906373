package config

import "time"

// Tier makes several nodes one. Without Redis and without members a node is on
// its own.
type Tier struct {
	// The Redis through which nodes find one another, agree on versions and keep
	// what they last knew. A node serves on without it.
	Redis Redis `yaml:"redis"`
	// All nodes of the tier, this one too, where there is no Redis: each as
	// name=host:port, with the node's name and the address of its peer port.
	Members []string `yaml:"members"`
	// How long a node of which nothing is heard any more counts as a member, so
	// that its keys stay with it. From 1s to 5m.
	Lease time.Duration `yaml:"lease" range:"1s..5m"`
	// The port for the other nodes.
	Peer Peer `yaml:"peer"`
	// How long the node that owns a key may be out of reach until this node asks
	// the origin itself. At least 100ms.
	OwnerTimeout time.Duration `yaml:"owner_timeout" range:"100ms.."`
	// How long a node that knows from the others that what it has is old lets a
	// client wait that has newer. 0s means not at all. At most 1m.
	HeadWait time.Duration `yaml:"head_wait" range:"0s..1m"`
	// Whether nodes have addresses of their own for the origins, such as those of the
	// control plane's replicas in their zone. Otherwise nodes in which they differ are
	// warned of, as of all that the nodes of a tier must have in common.
	OwnAddresses bool `yaml:"own_addresses"`
	// How clients are spread over the nodes.
	Balance Balance `yaml:"balance"`
}

// Redis is where the shared store is, and how to speak to it.
type Redis struct {
	// redis://[user[:password]@]host:port[/database], rediss:// for TLS, or
	// unix://PATH. Further addresses of a cluster or of sentinels follow as
	// ?addr=host:port&addr=host:port. Empty means that there is none.
	URL string `yaml:"url"`
	// What the addresses are: those of one server (standalone), of sentinels
	// (sentinel) or of the masters of a cluster (cluster).
	Mode RedisMode `yaml:"mode"`
	// The name of the master that the sentinels watch.
	Master string `yaml:"master"`
	// A file with the password, which keeps it out of the URL.
	PasswordFile string `yaml:"password_file"`
	// A file with the password of the sentinels.
	SentinelPasswordFile string `yaml:"sentinel_password_file"`
	// The certificates, where the URL says rediss://.
	TLS TLS `yaml:"tls"`
	// What all names in Redis begin with: tiers that share a Redis need different
	// ones. Letters, digits, - and _.
	Prefix string `yaml:"prefix"`
	// How long one call may take. At least 10ms.
	Timeout time.Duration `yaml:"timeout" range:"10ms.."`
}

// Peer is the port for the other nodes of the tier. Nodes prove to one another that
// they are peers: by certificates of the authority in tls.ca_file, by SPIFFE ids, by the
// token, or by several of these.
type Peer struct {
	// Where it listens, as host:port. Port 0 takes a free one. Required in a tier.
	Address string `yaml:"address"`
	// Where the other nodes reach it, as host:port. Empty means the address above.
	Advertise string `yaml:"advertise"`
	// Certificates for both sides: all nodes take and show those of one authority, or
	// of the SPIFFE ids in peer_ids.
	TLS TLS `yaml:"tls"`
	// A file with a secret that all nodes share, of 16 bytes at least. With several,
	// one in a line, the first is shown to others and all are good, which is how to
	// exchange it.
	TokenFile string `yaml:"token_file"`
	// Must be true to listen on anything but loopback without TLS: whoever sees the
	// traffic can then read all configuration, and the token.
	Plaintext bool `yaml:"plaintext"`
}

// Balance is how clients are spread over the nodes of a tier.
type Balance struct {
	// Whether nodes with more clients than their share send some away. Turn it off
	// where a load balancer in front of the tier does that.
	Enabled bool `yaml:"enabled"`
	// By how many percent a node may be above its share of the clients. From 1 to
	// 1000.
	HeadroomPercent int `yaml:"headroom_percent" range:"1..1000"`
	// How many percent above its share a node refuses new streams. More than
	// headroom_percent.
	RefusePercent int `yaml:"refuse_percent"`
	// How many percent of the surplus go in a minute. From 1 to 100.
	ShedPercent int `yaml:"shed_percent" range:"1..100"`
}

// LastGood is what is kept of each key beyond the life of the nodes, so that a tier
// that starts while its origin is down can serve what it last had.
type LastGood struct {
	// Where it is kept: redis, directory or none.
	Store LastGoodStore `yaml:"store"`
	// The directory, for this node alone.
	Directory string `yaml:"directory"`
	// A file with the keys that it is encrypted with: one in a line, as ID:KEY with
	// 32 bytes in base64. The first one encrypts, all decrypt. Without it nothing is
	// encrypted, and secrets are not kept, nor is a type of a key while a resource of
	// it holds something that may be secret, such as a key or a text inline.
	KeysFile string `yaml:"keys_file"`
	// How long after a change it is written; further changes wait for the next time.
	// At least 100ms.
	Delay time.Duration `yaml:"delay" range:"100ms.."`
	// The most that one type of a key may take, compressed; uncompressed it may take
	// four times as much, and 1GiB in any case at most. What is larger is not kept, nor
	// taken from the store. From 4KiB to 512MiB.
	MaxSize Size `yaml:"max_size" range:"4KiB..512MiB"`
}

// On tells whether the node is one of several.
func (t Tier) On() bool { return t.Redis.URL != "" || len(t.Members) > 0 }

// defaultTier is the tier where nothing is configured: none.
func defaultTier() Tier {
	return Tier{
		Redis:        Redis{Mode: Standalone, Prefix: "xdsrelay", TLS: TLS{Certificates: defaultCertificates()}, Timeout: 500 * time.Millisecond},
		Lease:        10 * time.Second,
		Peer:         Peer{TLS: TLS{Certificates: defaultCertificates()}},
		OwnerTimeout: 2 * time.Second,
		HeadWait:     5 * time.Second,
		Balance:      Balance{Enabled: true, HeadroomPercent: 10, RefusePercent: 50, ShedPercent: 10},
	}
}

// defaultLastGood keeps nothing.
func defaultLastGood() LastGood {
	return LastGood{Store: StoreNone, Delay: time.Second, MaxSize: 64 << 20}
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

// LastGoodStore is where the last known good state is kept.
type LastGoodStore string

// The stores.
const (
	StoreNone      LastGoodStore = "none"
	StoreRedis     LastGoodStore = "redis"
	StoreDirectory LastGoodStore = "directory"
)

// UnmarshalText takes the name of a store.
func (s *LastGoodStore) UnmarshalText(text []byte) error {
	return oneOf(s, text, StoreNone, StoreRedis, StoreDirectory)
}
