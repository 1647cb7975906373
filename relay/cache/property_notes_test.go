package cache

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// This is the part of the model and its readers for notes: what is sent without a change of a
// resource.

// hears reports whether s gets what is sent of name besides the resources.
func (s *sub) hears(name string) bool {
	return s.wild || s.names[name] || s.names[resource.GlobOf(name)]
}

// simple reports whether one stream serves all names: only then the model knows what is sent
// without a change.
func (l layout) simple() bool {
	return len(l.legs) == 1 && l.route(everything) == 0 && l.route("c") == 0
}

// refusals draws what a control plane may send instead of resources.
func (m *machine) refusals(t *rapid.T, u Update) (out []resource.About) {
	if !m.model.simple() || rapid.IntRange(0, 2).Draw(t, "errors") > 0 {
		return nil
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(resource.CanonicalNames(m.names().Draw(t, "refused"))))) {
		if slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return r.Key == n }) { // K8
			continue
		}
		code := rapid.SampledFrom([]int32{resource.CodeNotFound, resource.CodePermissionDenied, resource.CodeUnavailable, 99}).Draw(t, "code")
		out = append(out, resource.About{Name: n, Code: code, Raw: []byte(n + "!" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "message"))})
	}
	return out
}

// expireTTLs: F5: all TTLs expire.
func (m *machine) expireTTLs(t *rapid.T) {
	u := Update{Type: clusters, Kind: Partial}
	for n, ttl := range m.model.ttl {
		if ttl > 0 {
			u.Removed = append(u.Removed, n)
		}
	}
	m.observe(t, 0, u, func() int {
		before := m.table.newest()
		m.table.mu.Lock()
		woken := make(map[*Subscription]struct{})
		m.table.core.expireTTLs(time.Now().Add(2*time.Hour), woken)
		m.table.mu.Unlock()
		m.cache.wake(woken)
		return int(m.table.newest() - before)
	})
}

// heard checks what an answer contains besides its resources, and applies it to c.
func (m *machine) heard(t *rapid.T, c *reader, got Changes) {
	shown := make(map[string]bool)
	for _, r := range got.Resources {
		shown[r.Key] = true
		c.lives[r.Key] = m.model.beats[r.Key]
	}
	for _, r := range got.Heartbeats {
		if shown[r.Key] || c.held[r.Key] != r || !c.timed {
			t.Fatalf("a heartbeat of %q for a client that has %v, and gets the body: %t (F6, F8)", r.Key, c.held[r.Key], shown[r.Key])
		}
		shown[r.Key] = true
		c.lives[r.Key] = m.model.beats[r.Key]
	}
	for _, r := range slices.Concat(got.Resources, got.Heartbeats) {
		left, ok := got.Lifetimes[r]
		ttl := m.model.ttl[r.Key]
		if ok != (c.timed && ttl > 0 && m.model.shown[r.Key] == r) || left < 0 || left > ttl { // F1, F3
			t.Fatalf("%q is told with a lifetime of %v (%t), its TTL is %v", r.Key, left, ok, ttl)
		}
	}
	for _, raw := range got.Errors {
		name, _, _ := strings.Cut(string(raw), "!")
		if shown[name] || m.model.errors[name] != string(raw) || !c.sub.hears(name) { // K8
			t.Fatalf("%v is told %q, though it gets the resource (%t) or the newest error is %q", &c.sub, raw, shown[name], m.model.errors[name])
		}
		shown[name] = true
		c.errs[name] = string(raw)
	}
	if h := c.head(); got.More || got.To.Noted < h.Noted || c.timed && got.To.Noted < h.Heartbeat {
		return // there is more to send
	}
	for name, raw := range m.model.errors {
		inSet := c.sotw && (m.model.goBy(name) || m.model.inSet[name])
		if (c.sub.wild || c.sub.names[name]) && !inSet && c.errs[name] != raw && !got.Withheld.has(name) {
			t.Fatalf("%v was told %q of %q, expected %q", &c.sub, c.errs[name], name, raw)
		}
	}
	for name := range m.model.ttl {
		if c.timed && m.model.view(&c.sub)[name] != nil && c.lives[name] != m.model.beats[name] {
			t.Fatalf("%v was told %d times of the lifetime of %q, expected %d", &c.sub, c.lives[name], name, m.model.beats[name])
		}
	}
}

// renew follows the table: an unchanged resource that it shows once more is another copy, so that a
// client with the old one lacks something (C16, D15).
func (m *machine) renew(t *rapid.T) {
	for _, n := range m.model.renewed {
		e, old := m.table.entryOf(n), m.model.shown[n]
		if e == nil || e.Res == old || !e.Res.SameContent(old) {
			t.Fatalf("%q was not shown once more, though an error was taken back", n)
		}
		m.model.shown[n] = e.Res
		for stream := range m.model.copies {
			if c := m.model.copies[stream][n]; c.res == old {
				m.model.copies[stream][n] = modelCopy{e.Res, c.version}
			}
		}
	}
}

// reapNotes follows the table: it may drop what it received about names without interest. floor is
// up to where removals had been forgotten before.
func (m *machine) reapNotes(floor uint64) {
	for n := range m.model.errors {
		if m.model.wants[n] == nil && m.table.saidOf(n) == 0 {
			delete(m.model.errors, n)
		}
	}
	for n := range m.model.refused {
		if _, known := m.table.remembers(n); !known {
			delete(m.model.refused, n) // there were too many
		}
	}
	for n := range m.model.former {
		if e := m.table.entryOf(n); e == nil {
			delete(m.model.former, n)
		} else if m.floor() != floor {
			m.model.former[n] = e.Former() // it may have been dropped meanwhile
		}
	}
}

// spare records what c keeps because of an error.
func (m *machine) spare(c *reader, q Query, got Changes) {
	for _, n := range q.Force.list() {
		if c.held[n] != nil && m.model.errors[n] != "" {
			c.spared[n] = true
		}
	}
	maps.DeleteFunc(c.spared, func(n string, _ bool) bool { return c.held[n] == nil || m.model.goBy(n) })
}
