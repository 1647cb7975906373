package relay

import (
	"context"
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
	"xdsrelay/shard/head"
)

// addHeads makes the owner of a key write its tier heads if there is a Redis for them. The heads
// themselves follow in buildHeads, since they need the cache. They stop after the tier, which uses them.
func (n *Node) addHeads(cfg *tier.Config) {
	if n.store == nil {
		return
	}
	cfg.Own = append(cfg.Own, func(g *cache.Group) (end func()) { return n.heads.Own(g) })
	cfg.Advance = append(cfg.Advance, func(g *cache.Group) (end func()) { return n.heads.Advance(g) })
	n.add(part{stop: func() {
		if n.heads != nil { // not all of the node was made
			_ = n.heads.Close() // nothing is lost where it fails
		}
	}})
}

// buildHeads makes what keeps and follows heads. There is a cache by then, and no key
// in it yet.
func (n *Node) buildHeads() (err error) {
	if n.store == nil {
		return nil
	}
	n.heads, err = head.New(head.Config{
		Store: n.store, Node: n.name, Active: n.cache.Active, Wait: n.cfg.Tier.NewerStateTimeout, Nodes: n.nodes, Unstamped: n.unstamped,
		Sharded: n.sharded, Listening: n.announceSharded, Token: n.peers.door.token, Logger: n.part(logs.Tier), Meter: n.metrics.Meter(), Tracer: n.metrics.Tracer(),
		Rewrites: n.rewrites,
	})
	return err
}

// rewrites makes the owner of a key write the record of its rollouts and its last known good state again, too.
func (n *Node) rewrites(key string) {
	if n.keeper != nil && n.cfg.LastKnownGood.Store == config.StoreRedis {
		n.keeper.Lost(key)
	}
	if c := n.control.Load(); c != nil { // not all of the node was made
		c.Rewrite(key)
	}
}

// nodes is how many nodes the tier has.
func (n *Node) nodes() int { return len(n.members.View().Members()) }

// unstamped reports whether a node of the tier is of a version that writes heads without
// stamps.
func (n *Node) unstamped() bool {
	return slices.ContainsFunc(n.members.View().Members(), func(m shard.Member) bool { return !m.Stamps })
}

// sharded reports whether all nodes of the tier are subscribed to hints on sharded channels.
func (n *Node) sharded() bool {
	return !slices.ContainsFunc(n.members.View().Members(), func(m shard.Member) bool { return !m.Sharded })
}

// announceSharded informs the tier of whether this node is.
func (n *Node) announceSharded(sharded bool) {
	n.tier.Announce(func(s *shard.Status) { s.Sharded = sharded })
}

// headWait is how long the cache takes a table for behind: without heads, not at all.
func (n *Node) headWait() time.Duration {
	if n.store == nil {
		return 0
	}
	return n.cfg.Tier.NewerStateTimeout
}

// slept puts all keys in doubt after a time in which the process did not run. That it could not connect
// before does not show that the control plane cannot be reached now, so it tries again first.
func (n *Node) slept(began time.Time) {
	n.Reconnect()
	n.cache.Slept(began)
	if n.heads != nil {
		n.heads.Reread()
	}
}

// runFeed keeps a feed in step until ctx ends, and makes the heads of its key known.
func (n *Node) runFeed(ctx context.Context, f *cache.Feed) {
	if n.heads != nil && f.Stream() == 0 {
		n.heads.Follow(f.Group())
	}
	n.tier.Run(ctx, f)
}

// headsCheckTime bounds how long the check waits for Redis.
const headsCheckTime = 5 * time.Second

// checkHeads compares what this node holds with the heads, as far as Redis tells them.
func (n *Node) checkHeads() []string {
	if n.heads == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), headsCheckTime)
	defer cancel()
	wrong, err := n.heads.Check(ctx)
	if err != nil {
		return nil // that Redis is away is told elsewhere, and contradicts nothing
	}
	return wrong
}
