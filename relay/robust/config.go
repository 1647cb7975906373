package robust

import (
	"fmt"
	"path/filepath"
	"strings"
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
	// Cluster says that the tier's Redis is a cluster of three masters with a replica each;
	// otherwise it is one server.
	Cluster bool
	// Store is where the last known good state is kept: in a directory of each node, in
	// redis, or nowhere if it is empty.
	Store string
	// Guard says that nodes hold back mass removals, for [guardHold].
	Guard bool
	// Rollouts says that all keys have a rollout policy, with a step that does not end by itself.
	Rollouts bool
	// Plain leaves the times in which nodes wait at their defaults.
	Plain bool
	// Rounds is after how many rounds the run ends, For after which time; the later
	// one counts. A round is under way when the time is over, and is finished.
	Rounds int
	For    time.Duration

	// Binary is the relay, Dir a folder for configurations, logs and the recording.
	Binary, Dir string
	// Logf tells how the run goes.
	Logf func(format string, args ...any)
}

// guardHold is for how long removals are held back: a control plane that is put right
// within it takes nothing from clients, and some are put right later.
const guardHold = 6 * time.Second

// hold is for how long mass removals are held back; 0 if they are not.
func (c Config) hold() time.Duration {
	if c.Guard {
		return guardHold
	}
	return 0
}

// tokenFile is where the nodes' secret is.
const tokenFile = "token"

// nodeConfig is a node's file. Times are short, so that a run sees all of them, but
// for those that a busy machine must not make too short.
func (c Config) nodeConfig(n *Node, peerListen string) string {
	variant := "delta"
	if c.SotW {
		variant = "sotw"
	}
	text := fmt.Sprintf(`node: {name: %s}
listener: {address: "%s"}
admin: {address: "%s"}
upstream:
  addresses: ["unix:%s"]
  variant: %s
  connect_timeout: 2s
  keepalive_interval: 10s
  keepalive_timeout: 2s
  backoff: {initial: 100ms, max: 1s}
drain: {duration: 2s, grace: 1s}
log: {level: info}
`, n.name, n.addr, n.admin, originSocket, variant)
	cache := []string{}
	if !c.Plain {
		cache = append(cache, "linger: 2s", "confirm_timeout: 3s")
	}
	if hold := c.hold(); hold > 0 {
		text += "removal_guard: {max_percent: 50, hold: " + hold.String() + "}\n"
	}
	if len(cache) > 0 {
		text += "cache: {" + strings.Join(cache, ", ") + "}\n"
	}
	if c.Rollouts {
		text += rolloutConfig
	}
	if !c.Tier {
		return text
	}
	switch c.Store {
	case "directory":
		text += "last_known_good: {store: directory, directory: kept, write_delay: 200ms}\n"
	case "redis":
		text += "last_known_good: {store: redis, write_delay: 200ms}\n"
	}
	timeout := 200 * time.Millisecond
	if c.Rollouts {
		// A node that starts on a busy machine must reach Redis: without it, it has nothing with which to compare
		// a revision.
		timeout = 800 * time.Millisecond
	}
	return text + fmt.Sprintf(`tier:
  redis: {%s, timeout: %s}
  lease: %s
  peer: {address: "%s", advertise_address: "%s", token_file: "%s"}
  owner_timeout: %s
  balance: {enabled: false}
`, n.redisAt, timeout, c.Lease, peerListen, n.peer.addr(), filepath.Join(c.Dir, tokenFile), c.OwnerTimeout)
}
