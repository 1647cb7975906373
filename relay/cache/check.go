package cache

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/resource"
)

// GroupInfo describes one key.
type GroupInfo struct {
	Key       string      `json:"key"`
	Clients   int         `json:"clients"`
	Idle      bool        `json:"idle"`
	Connected bool        `json:"connected"`
	Since     time.Time   `json:"since,omitzero"`
	Error     string      `json:"error,omitempty"`
	Bytes     int64       `json:"bytes"`
	Tables    []TableInfo `json:"tables"`
}

// TableInfo describes one type of a key.
type TableInfo struct {
	TypeURL       string `json:"type_url"`
	Version       string `json:"version"`
	Generation    uint64 `json:"generation"`
	Resources     int    `json:"resources"`
	Tombstones    int    `json:"tombstones"`
	Bytes         int64  `json:"bytes"`
	Subscriptions int    `json:"subscriptions"`
	Watchers      int    `json:"watchers"`
	Wildcard      bool   `json:"wildcard"`
	Names         int    `json:"names"`
	Updates       uint64 `json:"updates"`
	Changes       uint64 `json:"changes"`
	Ignored       uint64 `json:"ignored"`
}

// Snapshot describes all keys, sorted.
func (c *Cache) Snapshot() []GroupInfo {
	groups := c.Groups()
	out := make([]GroupInfo, 0, len(groups))
	for _, g := range groups {
		up := g.Upstream()
		i := GroupInfo{Key: string(g.Key), Connected: up.Connected, Since: up.Since}
		c.mu.Lock()
		i.Clients, i.Idle = g.clients, g.feed == nil
		c.mu.Unlock()
		if up.Err != nil {
			i.Error = up.Err.Error()
		}
		for _, t := range g.Tables() {
			ti := t.info()
			i.Bytes += ti.Bytes
			i.Tables = append(i.Tables, ti)
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b GroupInfo) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func (t *Table) info() TableInfo {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i := TableInfo{
		TypeURL: t.Type.URL, Version: t.version, Generation: t.gen, Resources: t.live, Tombstones: t.graves.len,
		Bytes: t.bytes, Subscriptions: len(t.subs), Wildcard: t.wild.demanded(), Names: len(t.wants),
		Updates: t.fed.Updates, Changes: t.fed.Changes, Ignored: t.fed.Ignored,
	}
	if i.Version == "" {
		i.Version = t.digest.Hex()
	}
	for _, s := range t.subs {
		i.Watchers += s.count
	}
	return i
}

// Reaches reports whether the table has come to generation gen.
func (t *Table) Reaches(gen uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return gen <= t.gen
}

// Check recomputes from scratch what the tables keep up to date change by
// change. It returns a sentence for each difference, and nothing if all is
// well. It costs as much as everything that is held.
func (c *Cache) Check() []string {
	var wrong []string
	for _, g := range c.Groups() {
		for _, t := range g.Tables() {
			for _, w := range t.check() {
				wrong = append(wrong, fmt.Sprintf("key %q, type %s: %s", g.Key, t.Type.URL, w))
			}
		}
	}
	return wrong
}

func (t *Table) check() (wrong []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var live, dead int
	var digest resource.Digest
	for _, e := range t.entries {
		if e.gen > t.gen {
			complain("%q changed at generation %d, beyond the table's %d", e.name, e.gen, t.gen)
		}
		if e.res == nil {
			dead++
			continue
		}
		live++
		digest = digest.Add(e.res.Member())
	}
	if live != t.live || dead != t.graves.len || live+dead != t.changes.len {
		complain("%d resources and %d tombstones, but %d, %d and %d are counted", live, dead, t.live, t.graves.len, t.changes.len)
	}
	if digest != t.digest {
		complain("the digest does not fit the resources")
	}
	last, n := t.gen, 0
	for e := t.changes.newest; e != nil; e = e.changes.next {
		if n++; e.gen > last {
			complain("%q is out of order in the list of changes", e.name)
		}
		last = e.gen
	}
	if n != t.changes.len {
		complain("the list of changes holds %d entries, not %d", n, t.changes.len)
	}
	for key, s := range t.subs {
		wrong = append(wrong, t.checkSubscription(key, s)...)
	}
	return wrong
}

func (t *Table) checkSubscription(key subKey, s *Subscription) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	sum := subKey{wildcard: s.key.wildcard}
	for n := range s.names {
		sum.add(&t.seeds, n)
		w := t.wants[n]
		if w == nil {
			complain("%q is subscribed but not wanted", n)
			continue
		}
		if _, ok := w.subs[s]; !ok {
			complain("the subscription to %q is not in the index", n)
		}
	}
	if sum != key || s.key != key {
		complain("a subscription is filed under another content")
	}
	count := 0
	for w := s.watchers; w != nil; w = w.next {
		count++
	}
	if count != s.count || count == 0 {
		complain("a subscription has %d watchers, but counts %d", count, s.count)
	}
	if s.key.wildcard {
		return wrong
	}
	again := Subscription{names: s.names}
	t.recountLocked(&again)
	if again.live != s.live || again.digest != s.digest {
		complain("a subscription sees %d resources, but counts %d, or its digest is off", again.live, s.live)
	}
	return wrong
}
