package cache

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
)

// Other nodes of a tier join the groups of keys that they take this node for the
// owner of, like clients. A group knows how many of them it has, since what they
// want must come from the origin: it is never asked of a third node (one hop).

// JoinPeer is [Cache.Join] for another node. Each needs one [Cache.LeavePeer].
func (c *Cache) JoinPeer(key aggregation.Key, node *corev3.Node) *Group {
	g := c.Join(key, node)
	c.mu.Lock()
	defer c.mu.Unlock()
	g.addPeersLocked(1)
	return g
}

// LeavePeer is [Cache.Leave] for another node.
func (c *Cache) LeavePeer(g *Group) {
	c.mu.Lock()
	g.addPeersLocked(-1)
	c.mu.Unlock()
	c.Leave(g)
}

// addPeersLocked must be called with cache.mu held.
func (g *Group) addPeersLocked(n int) {
	g.peers += n
	if g.peersChanged != nil {
		close(g.peersChanged)
		g.peersChanged = nil
	}
}

// Peers is how many streams of other nodes the group serves. changed is closed when
// that is another number.
func (g *Group) Peers() (n int, changed <-chan struct{}) {
	g.cache.mu.Lock()
	defer g.cache.mu.Unlock()
	if g.peersChanged == nil {
		g.peersChanged = make(chan struct{})
	}
	return g.peers, g.peersChanged
}

// Group is the group that the feed is a part of.
func (f *Feed) Group() *Group { return f.group }
