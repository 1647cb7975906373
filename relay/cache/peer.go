package cache

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Other nodes of a tier join the groups of keys like clients if they believe that this node is the
// owner. A group counts them, because what they ask for must come from the control plane: it is
// never requested from a third node (one hop).

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

// Peers is how many streams of other nodes the group serves. changed is closed when the number
// changes.
func (g *Group) Peers() (n int, changed <-chan struct{}) {
	g.cache.mu.Lock()
	defer g.cache.mu.Unlock()
	if g.peersChanged == nil {
		g.peersChanged = make(chan struct{})
	}
	return g.peers, g.peersChanged
}

// StreamNamed is the index of the stream with a name, as [OriginStream.String] returns it; -1 for
// none.
func (c *Cache) StreamNamed(name string) int {
	return slices.IndexFunc(c.cfg.Streams, func(l OriginStream) bool { return l.String() == name })
}

// Server is the address of the control plane's server that sent the content of a stream last (see
// [Feed.SetServer]); "" if that is unknown, or there is no such stream.
func (g *Group) Server(stream int) string {
	if stream < 0 || stream >= len(g.streams) {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.Versions.Server()
}

// Cut reports whether the control plane of a stream is unreachable.
func (g *Group) Cut(stream int) bool {
	return stream >= 0 && stream < len(g.streams) && g.unreachable(1<<stream)
}

// wakePeers notifies other nodes that a control plane is reachable again.
func (g *Group) wakePeers() {
	if n, _ := g.Peers(); n == 0 {
		return
	}
	woken := make(map[*Subscription]struct{})
	for _, t := range g.Tables() {
		t.mu.RLock()
		for _, s := range t.core.subs {
			woken[s] = struct{}{}
		}
		t.mu.RUnlock()
	}
	g.cache.wake(woken)
}

// uncacheableNotice is what another node gets instead of a resource that must not be cached or
// shared: only that it exists (K17).
func (t *core) uncacheableNotice(name string) *resource.Resource {
	return resource.New(resource.Resource{Name: t.called(name), Extra: resource.DoNotCacheField(), DoNotCache: true})
}

// Unshared returns the names of the resources that w asks for and that must not be cached or
// shared.
func (t *Table) Unshared(w *Watcher) *Names {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.sub == nil {
		return nil
	}
	var names []string
	for _, name := range t.core.store.Uncacheable() {
		if e := t.core.store.Get(name); e != nil && t.core.coversUncacheable(w.sub, e) {
			names = append(names, name)
		}
	}
	return NewNames(names)
}

// coversUncacheable reports whether e is a resource that must not be cached, and s asks for
// it.
func (t *core) coversUncacheable(s *Subscription, e *table.Entry) bool {
	return e.Denied && t.store.Uncacheable()[e.Name] == e.Name && (s.asksFor(e) || s.key.wildcard && e.Stream == t.demand.Wildcard().Stream())
}

// Group is the group of the feed.
func (f *Feed) Group() *Group { return f.group }
