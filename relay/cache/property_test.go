package cache

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// TestTableAgainstModel: random updates, subscriptions and readers. What a
// client holds that follows the changes from its own position is what the
// model says that its subscription sees, at every step (B28, B38, D12). What the
// origin is told adds up to what they all want (C9, K9).
func TestTableAgainstModel(t *testing.T) {
	for name, k := range map[string]kind{"names": {}, "aliases": {aliases: true}, "globs": {globs: true}} { // B38, G1, G6
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newMachine(t, k)
				defer m.cache.Close()
				t.Repeat(map[string]func(*rapid.T){
					"apply": m.apply, "absent": m.silence, "take": m.take, "expire": m.expire,
					"replace": m.replace, "edit": m.edit, "follow": m.follow, "demand": m.demand, "reconnect": m.reconnect,
					"": m.check,
				})
				for _, c := range m.clients { // and at the end everybody holds everything
					m.read(t, c, Query{})
				}
			})
		})
	}
}

type machine struct {
	*world
	kind
	model   *model
	table   *Table
	clients []*reader
	content map[uint64]string // of the subscriptions by their ids
}

func newMachine(t *rapid.T, k kind) *machine {
	m := &machine{
		world: newWorld(t, Config{Linger: time.Hour, Tombstones: 2}),
		kind:  k, model: newModel(), content: make(map[uint64]string),
	}
	m.table = m.group.Table(clusters)
	for range 4 {
		c := &reader{sotw: k == kind{} && len(m.clients)%2 == 1, held: make(map[string]*resource.Resource), ghosts: make(map[string]bool)}
		c.table, c.at = m.table, Start
		m.clients = append(m.clients, c)
	}
	return m
}

func (m *machine) pick(t *rapid.T) *reader { return rapid.SampledFrom(m.clients).Draw(t, "client") }

// update draws what an origin may say.
func (m *machine) update(t *rapid.T) Update {
	u := Update{
		Type: clusters, Source: "origin",
		Full: rapid.Bool().Draw(t, "full"), Partial: rapid.Bool().Draw(t, "partial"),
		Version: rapid.SampledFrom([]string{"", "v1", "v2", "v3"}).Draw(t, "version"),
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(resource.CanonicalNames(m.names().Draw(t, "names"))))) {
		if resource.IsGlob(n) {
			continue // no resource is called so
		}
		r := resource.Resource{Name: m.spell(t, n), Version: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "resource version")}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0: // C11
		case 1: // F6
			r.TTL = time.Minute
		default:
			r.Body = []byte(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "content"))
			if m.aliases {
				r.Aliases = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "p", "q"}), 0, 2).Draw(t, "aliases")
				for _, a := range r.Aliases {
					r.Extra = append(r.Extra, a+";"...)
				}
			}
		}
		u.Resources = append(u.Resources, resource.New(r))
	}
	if u.Full {
		u.Keep = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 1).Draw(t, "keep")
		return u
	}
	for _, n := range m.names().Draw(t, "removed") {
		if !slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return r.Key == resource.Canonical(n) }) { // B29
			u.Removed = append(u.Removed, n)
		}
	}
	return u
}

func (m *machine) apply(t *rapid.T) {
	u := m.update(t)
	m.observe(t, u, func() int { return m.feed.Apply(u) })
}

func (m *machine) silence(t *rapid.T) {
	names := m.names().Draw(t, "names")
	u := Update{Type: clusters, Partial: true}
	for _, n := range names {
		c := resource.Canonical(n)
		if m.model.wants[c] != nil && (m.model.unknown(c) || resource.IsGlob(c) && m.model.open(c)) {
			u.Removed = append(u.Removed, n)
		}
	}
	equal(t, "missing", m.feed.Missing(clusters, names), u.Removed)
	m.observe(t, u, func() int { return m.feed.Absent(clusters, names) })
}

// observe applies an update here and there, and looks who is woken by it: all
// who see a difference, and nobody else.
func (m *machine) observe(t *rapid.T, u Update, apply func() int) {
	type state struct {
		view    map[string]*resource.Resource
		missing map[string]bool
		known   bool
	}
	states := func() (out []state) {
		for _, c := range m.clients {
			s := state{known: true}
			if c.w.sub != nil {
				s = state{m.model.view(&c.sub), m.model.missing(&c.sub), m.model.known(&c.sub)}
			}
			out = append(out, s)
		}
		return out
	}
	before := states()
	m.nap()
	gen, floor := m.table.gen, m.table.floor
	n := apply()
	if want := m.model.apply(u); n != want && m.table.floor == floor { // else some names became unknown on the way
		t.Fatalf("%d changes, expected %d", n, want)
	}
	if moved := m.table.gen - gen; moved != uint64(n) {
		t.Fatalf("the table went %d generations ahead for %d changes", moved, n)
	}
	// Tombstones that nobody asks for may be dropped.
	for n := range m.model.absent {
		switch e := m.table.entries[n]; {
		case m.model.wants[n] != nil:
		case e == nil:
			delete(m.model.absent, n)
			delete(m.model.former, n)
		default: // it may have been dropped and made again
			m.model.former[n] = e.former
		}
	}
	for i, after := range states() {
		c := m.clients[i]
		changed := !maps.Equal(before[i].view, after.view) || !maps.Equal(before[i].missing, after.missing)
		woken := m.woke()[c.w.sub]
		if changed && !woken {
			t.Fatalf("client %d (%v) sees a change and was not woken", i, &c.sub)
		}
		if !before[i].known && after.known && !woken {
			t.Fatalf("client %d (%v) was answered and not woken", i, &c.sub)
		}
		if woken && n == 0 && u.Partial && !(m.globs && m.concerns(c, u)) { // a glob may be answered so
			t.Fatalf("client %d was woken for nothing", i)
		}
		if woken && !changed && !c.sub.wild && !m.aliases && !m.concerns(c, u) && u.Partial {
			t.Fatalf("client %d (%v) was woken, though %v does not concern it", i, &c.sub, u)
		}
	}
}

func (m *machine) concerns(c *reader, u Update) bool {
	names := func(n string) bool { return c.sub.names[n] || c.sub.names[resource.GlobOf(n)] }
	return u.Full || slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return names(r.Key) }) ||
		slices.ContainsFunc(resource.CanonicalNames(u.Removed), names)
}

// take: K9: what the origin is told adds up to the union of all demand, no name
// is told twice, and one that went and came back is told again (C9), marked as
// such. What a wildcard brought is dropped with it.
func (m *machine) take(t *rapid.T) {
	all := rapid.IntRange(0, 3).Draw(t, "all") == 0
	if all { // a new stream
		m.model.told, m.model.toldWild = make(map[string]string), false
		clear(m.model.returned)
		clear(m.model.brought)
	}
	again := maps.Clone(m.model.returned)
	maps.DeleteFunc(again, func(_ string, back bool) bool { return !back })
	defer clear(m.model.brought)
	for _, d := range m.feed.TakeDemand(all, true) {
		for _, spelled := range d.Subscribe {
			n := resource.Canonical(spelled)
			if m.model.told[n] != "" && (!m.model.returned[n] || m.model.told[n] != spelled) {
				t.Fatalf("%q is subscribed twice", spelled)
			}
			delete(m.model.returned, n)
			m.model.told[n] = spelled
		}
		for _, spelled := range d.Unsubscribe {
			n := resource.Canonical(spelled)
			if m.model.told[n] != spelled && !m.model.brought[n] {
				t.Fatalf("%q is unsubscribed, but %q was subscribed", spelled, m.model.told[n])
			}
			delete(m.model.told, n)
		}
		if !all {
			equal(t, "names that came back", slices.Sorted(slices.Values(resource.CanonicalNames(d.Again))), sortedKeys(again))
		}
		if d.WildcardChanged && !d.Wildcard && !m.model.toldWild {
			t.Fatal("the wildcard is left, but was not joined")
		}
		m.model.toldWild = d.Wildcard
		equal(t, "names", slices.Sorted(slices.Values(resource.CanonicalNames(d.Names))), sortedKeys(m.model.wants))
	}
	equal(t, "names told", sortedKeys(m.model.told), sortedKeys(m.model.wants))
	equal(t, "wildcard told", m.model.toldWild, m.model.wild != nil)
	for n, back := range m.model.returned {
		if back && m.model.wants[n] != nil {
			t.Fatalf("%q came back, but was not subscribed again", n)
		}
	}
	for _, w := range m.model.wants {
		w.asked = true
	}
	if m.model.wild != nil {
		m.model.wild.asked = true
	}
}

// expire ends all linger times.
func (m *machine) expire(*rapid.T) {
	m.table.mu.Lock()
	m.table.expireLocked(time.Now().Add(2 * time.Hour))
	m.table.unlockAndSignal()
	var subs []*sub
	for _, c := range m.clients {
		subs = append(subs, &c.sub)
	}
	m.model.expire(subs)
	for n := range m.model.returned {
		if m.model.wants[n] == nil {
			delete(m.model.returned, n)
		}
	}
}

// check holds what must be true at any time.
func (m *machine) check(t *rapid.T) {
	for _, wrong := range m.cache.Check() {
		t.Fatalf("%s", wrong)
	}
	ids := make(map[string]uint64)
	for _, c := range m.clients {
		h := c.head()
		if c.sub.names == nil {
			continue
		}
		equal(t, "size of the subscription", h.Names, len(c.sub.names))
		equal(t, "wildcard", h.Wildcard, c.sub.wild)
		equal(t, "known", h.Known, m.model.known(&c.sub))
		content := c.sub.String()
		if id, ok := ids[content]; ok && id != h.Subscription {
			t.Fatalf("two clients want %s and do not share it", content)
		}
		ids[content] = h.Subscription
		if was, ok := m.content[h.Subscription]; ok && was != content {
			t.Fatalf("subscription %d was %s and is %s", h.Subscription, was, content)
		}
		m.content[h.Subscription] = content
	}
	held := make(map[string]string)
	for n, v := range m.model.held {
		if v != "" {
			held[m.model.live[n].Name] = v
		}
	}
	if got := m.feed.Held(clusters); !maps.Equal(got, held) { // C8
		t.Fatalf("held %v, expected %v", got, held)
	}
}

func equal[T any](t rapid.TB, what string, got, want T) {
	t.Helper()
	if !equalValues(got, want) {
		t.Fatalf("%s: %v, expected %v", what, got, want)
	}
}
