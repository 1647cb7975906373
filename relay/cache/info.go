package cache

import (
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/redact"
)

// GroupInfo describes one key.
type GroupInfo struct {
	Key     string `json:"key"`
	Clients int    `json:"clients"`
	Peers   int    `json:"peers,omitempty"`   // streams of other nodes
	Private int    `json:"private,omitempty"` // clients with upstream streams of their own
	Idle    bool   `json:"idle"`
	// Connected says that all streams with demand are established; Error is why they are not.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Error     string    `json:"error,omitempty"`
	// Stale says that some content was restored from last known good, and the control plane has not
	// answered for it since (K14).
	Stale bool `json:"stale,omitempty"`
	// BehindSince is since when the tier agrees on newer content that this node lacks, if that is
	// longer than [Config.HeadWait].
	BehindSince time.Time    `json:"behind_since,omitzero"`
	Streams     []StreamInfo `json:"legs"`
	Bytes       int64        `json:"bytes"`
	// HeldRemovals is how many resources are served although a control plane removed them (K16).
	HeldRemovals int         `json:"held_removals,omitempty"`
	Tables       []TableInfo `json:"tables"`
}

// Down reports whether the key lacks a stream that it should have, and since when: the one that was
// lost first counts. A key during its first attempts is not down, nor is an idle one. All reports
// of keys that are down use this.
func (g *GroupInfo) Down() (since time.Time, down bool) {
	if g.Idle {
		return time.Time{}, false
	}
	for _, l := range g.Streams {
		wanted := l.Wanted || len(g.Streams) == 1 // a single stream exists as long as the key has clients
		if !wanted || l.Connected || l.Error == "" {
			continue
		}
		if !down || l.Since.Before(since) {
			since = l.Since
		}
		down = true
	}
	return since, down
}

// Empty reports whether the key has clients and no content at all, and why no control plane can be
// asked; "" while one can, or may be.
func (g *GroupInfo) Empty() (why string) {
	connected := func(l StreamInfo) bool { return l.Wanted && l.Connected }
	content := func(t TableInfo) bool { return t.Generation > 0 }
	if g.Clients == 0 || g.Connected || slices.ContainsFunc(g.Streams, connected) || slices.ContainsFunc(g.Tables, content) {
		return ""
	}
	return g.Error
}

// StreamInfo describes one upstream stream of a key.
type StreamInfo struct {
	// Origin is the name of the control plane; Names says that the stream is for names only, and
	// another one for the rest.
	Origin string `json:"upstream"`
	Names  bool   `json:"names,omitempty"`
	// Wanted says that the stream has demand.
	Wanted    bool      `json:"wanted"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Error     string    `json:"error,omitempty"`
}

// TableInfo describes one type of a key.
type TableInfo struct {
	TypeURL string `json:"type_url"`
	Version string `json:"version"`
	// ControlPlaneVersion is the control plane's own version of its newest update, if it has one.
	ControlPlaneVersion string `json:"control_plane_version,omitempty"`

	Generation    uint64 `json:"generation"`
	Resources     int    `json:"resources"`
	Tombstones    int    `json:"tombstones"`
	Bytes         int64  `json:"bytes"`
	Subscriptions int    `json:"subscriptions"`
	Watchers      int    `json:"watchers"`
	Wildcard      bool   `json:"wildcard"`
	Names         int    `json:"names"`
	// NamesShare is the share of their bound that the names take; see [OriginStream.MaxNames].
	NamesShare     float64 `json:"names_share,omitempty"`
	Stale          bool    `json:"stale,omitempty"` // see GroupInfo.Stale
	Updates        uint64  `json:"updates"`
	Changes        uint64  `json:"changes"`
	Ignored        uint64  `json:"ignored"`
	Expiring       int     `json:"expiring"` // resources with a TTL
	Expired        uint64  `json:"expired"`
	ResourceErrors int     `json:"remarks"`                 // names with an error, or with a removal in a form of its own
	HeldRemovals   int     `json:"held_removals,omitempty"` // resources that a control plane removed and that are still served (K16)
}

// GroupInfos describes all keys, sorted.
func (c *Cache) GroupInfos() []GroupInfo {
	private := make(map[aggregation.Key]int)
	c.mu.Lock()
	for g := range c.privates {
		private[g.Key]++
	}
	c.mu.Unlock()
	groups := c.Groups()
	out := make([]GroupInfo, 0, len(groups))
	for _, g := range groups {
		up := g.Upstream()
		i := GroupInfo{Key: string(g.Key), Private: private[g.Key], Connected: up.Connected, Since: up.Since}
		c.mu.Lock()
		i.Clients, i.Peers, i.Idle = g.clients-g.peers, g.peers, !g.runs
		c.mu.Unlock()
		if up.Err != nil {
			i.Error = redact.Error(up.Err)
		}
		for l := range g.streams {
			i.Streams = append(i.Streams, g.streamInfo(l))
		}
		for _, t := range g.Tables() {
			ti := t.info()
			if since := t.behindSince(time.Now()); !since.IsZero() && (i.BehindSince.IsZero() || since.Before(i.BehindSince)) {
				i.BehindSince = since
			}
			i.Bytes += ti.Bytes
			i.Stale = i.Stale || ti.Stale
			i.HeldRemovals += ti.HeldRemovals
			i.Tables = append(i.Tables, ti)
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b GroupInfo) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func (g *Group) streamInfo(i int) StreamInfo {
	stream, up := g.cache.cfg.Streams[i], g.upstreamOf(i)
	info := StreamInfo{Origin: stream.Origin, Names: stream.Names, Wanted: g.hasDemand(i), Connected: up.Connected, Since: up.Since}
	if up.Err != nil {
		info.Error = redact.Error(up.Err)
	}
	return info
}

func (t *Table) info() TableInfo {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i := TableInfo{
		TypeURL: t.Type.URL, Version: t.core.wildVersion(), ControlPlaneVersion: t.core.heard.Newest(), Generation: t.core.store.Gen(), Resources: t.core.store.Live(), Tombstones: t.core.store.Tombstones(),
		Bytes: t.core.bytes(), Subscriptions: len(t.core.subs), Wildcard: t.core.demand.Wildcard().Demanded(), Names: t.core.demand.Len(), NamesShare: t.core.fullest(),
		Updates: t.core.fed.Updates, Changes: t.core.fed.Changes, Ignored: t.core.fed.Ignored,
		Stale: t.core.stale(), Expiring: t.core.store.Expiring(), Expired: t.core.fed.Expired, ResourceErrors: t.core.notes.Len(),
	}
	for l := range t.core.streams {
		i.HeldRemovals += t.core.streams[l].guard.Len()
	}
	for _, s := range t.core.subs {
		i.Watchers += s.count
	}
	return i
}
