package robust

import (
	"fmt"
	"path/filepath"
	"time"
)

// Config says what a run is like.
type Config struct {
	Seed    uint64
	Nodes   int  // at least 1
	Clients int  // at least 4 for each key, so that each has all variants
	Keys    int  // at least 1
	Size    int  // names of each type and key
	SotW    bool // the origin speaks SotW; otherwise delta
	Tier    bool // the nodes are one tier; otherwise each is on its own

	// Lease is how long a dead node counts as a member. 0 means 3s.
	Lease time.Duration
	// OwnerTimeout is how long an owner may be out of reach. 0 means 500ms.
	OwnerTimeout time.Duration
	// Direct leaves out the proxies before the origin: all nodes then have it at one
	// address, so that one can go on where another was.
	Direct bool
	// Rounds is after how many rounds the run ends, For after which time; the later
	// one counts. A round is under way when the time is over, and is finished.
	Rounds int
	For    time.Duration

	// Binary is the relay, Dir a folder for configurations, logs and the recording.
	Binary, Dir string
	// Logf tells how the run goes.
	Logf func(format string, args ...any)
}

// tokenFile is where the nodes' secret is.
const tokenFile = "token"

// nodeConfig is a node's file. Times are short, so that a run sees all of them.
func (c Config) nodeConfig(n *Node, peerListen string) string {
	variant, origin := "delta", n.origin.addr()
	if c.SotW {
		variant = "sotw"
	}
	if c.Direct {
		origin = n.origin.upstream()
	}
	text := fmt.Sprintf(`node: {name: %s}
listen: {address: "%s"}
admin: {address: "%s"}
origin:
  addresses: ["%s"]
  variant: %s
  connect_timeout: 2s
  keepalive: 10s
  keepalive_timeout: 2s
  backoff: {initial: 100ms, max: 1s}
cache: {linger: 2s, hold: 20s}
drain: {time: 2s, grace: 1s}
log: {level: info}
`, n.name, n.addr, n.admin, origin, variant)
	if !c.Tier {
		return text
	}
	return text + fmt.Sprintf(`last_good: {store: directory, directory: "%s", delay: 200ms}
tier:
  redis: {url: "redis://%s", timeout: 200ms}
  lease: %s
  peer: {address: "%s", advertise: "%s", token_file: "%s"}
  owner_timeout: %s
  head_wait: 20s
  balance: {enabled: false}
`, filepath.Join(c.Dir, n.name), n.redis.addr(), c.Lease, peerListen, n.peer.addr(), filepath.Join(c.Dir, tokenFile), c.OwnerTimeout)
}
