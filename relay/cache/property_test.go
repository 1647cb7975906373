package cache

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// TestTableAgainstModel: random updates, subscriptions and readers. The content of a client that
// follows the changes from its own position is what its subscription sees in the model, at every
// step (B28, B38, D12). The requests to the control plane add up to the demand of all clients (C9,
// K9).
func TestTableAgainstModel(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				percent := 0
				if name == "guarded" {
					percent = 50
				}
				m := newMachine(t, layout, percent, kind{aliases: name == "aliases", globs: strings.Contains(name, "globs")}) // B38, G1, G6
				defer m.cache.Close()
				t.Repeat(map[string]func(*rapid.T){
					"apply": m.apply, "absent": m.silence, "lapse": m.expireTTLs, "take": m.take, "expire": m.expire,
					"replace": m.replace, "edit": m.edit, "follow": m.follow, "demand": m.demand, "reconnect": m.reconnect,
					"release": m.release, "": m.check,
				})
				for _, c := range m.clients { // and at the end every client has everything
					m.read(t, c, Query{})
				}
			})
		})
	}
}

// layouts are the ways in which streams share the names of the test.
var layouts = map[string]layout{
	"names":   {[]OriginStream{{}}, func(string) int { return 0 }},
	"aliases": {[]OriginStream{{}}, func(string) int { return 0 }},
	"globs":   {[]OriginStream{{}}, func(string) int { return 0 }},
	"guarded": {[]OriginStream{{Origin: "one"}, {Origin: "two"}}, func(n string) int {
		if n == "c" {
			return 1
		}
		return 0
	}},
	"globs of another origin": {[]OriginStream{{Origin: "one"}, {Origin: "two"}}, func(n string) int {
		if resource.IsURN(n) {
			return 1
		}
		return 0
	}},
	"one origin and names of nobody": {[]OriginStream{{}}, func(n string) int {
		if n == "c" || n == "d" {
			return Nobody
		}
		return 0
	}},
	"names only": {[]OriginStream{{}}, func(n string) int { // no control plane has the wildcard
		if n == everything {
			return Nobody
		}
		return 0
	}},
	"two origins": {[]OriginStream{{Origin: "one"}, {Origin: "two"}}, func(n string) int { // G3
		switch n {
		case "c", "d":
			return 1
		case "e":
			return Nobody
		}
		return 0
	}},
	"separate names": { // D11
		[]OriginStream{{Origin: "one"}, {Origin: "one", Names: true}, {Origin: "two"}}, func(n string) int {
			switch n {
			case everything:
				return 0
			case "f":
				return 2
			}
			return 1
		},
	},
}

type machine struct {
	*world
	kind
	model   *model
	table   *Table
	clients []*reader
	content map[uint64]string // of the subscriptions by their ids
}

func newMachine(t *rapid.T, l layout, percent int, k kind) *machine {
	m := &machine{
		world: newWorld(t, Config{
			Linger: time.Hour, Tombstones: 2, MaxRemovalPercent: percent,
			Streams: l.legs, Route: func(_ *resource.Type, n string) int { return l.route(n) },
		}),
		kind: k, model: newModel(l), content: make(map[uint64]string),
	}
	m.cache.step = rapid.SampledFrom([]int{namesPerStep, 1, 2}).Draw(t, "names per step")
	m.model.percent = percent
	m.table = m.group.Table(clusters)
	for range 4 {
		c := &reader{sotw: k == kind{} && len(m.clients)%2 == 1, timed: len(m.clients) < 2}
		c.forget()
		c.table, c.at = m.table, Start
		m.clients = append(m.clients, c)
	}
	return m
}

func (m *machine) pick(t *rapid.T) *reader {
	return m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
}

// update draws what a control plane may send.
func (m *machine) update(t *rapid.T) Update {
	u := Update{
		Type: clusters,
		Full: rapid.Bool().Draw(t, "full"), Kind: rapid.SampledFrom([]UpdateKind{Answer, Partial}).Draw(t, "proves"),
		Version:     rapid.SampledFrom([]string{"", "v1", "v2", "v3"}).Draw(t, "version"),
		Differences: rapid.Bool().Draw(t, "differences"),
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(resource.CanonicalNames(m.names().Draw(t, "names"))))) {
		if resource.IsGlob(n) {
			continue // no resource has this name
		}
		r := resource.Resource{Name: m.spell(t, n), Version: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "resource version")}
		if m.model.simple() && rapid.Bool().Draw(t, "ttl") {
			r.TTL = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "lifetime")
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0: // C11
			r.TTL = 0
		case 1, 2: // F6
			r.TTL = time.Minute
			if old := m.model.copies[0][n]; old.res != nil && rapid.Bool().Draw(t, "right") {
				r.Version = old.version
			}
			if !m.model.simple() {
				r.Version = "of nothing"
			}
		case 3: // K17
			// The model knows no hidden members of globs, nor of several streams.
			r.Body, r.DoNotCache = []byte("private"), !m.globs && len(m.table.core.streams) == 1
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
	u.Errors = m.refusals(t, u)
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
	u, stream := m.update(t), m.anyLeg(t)
	u.Source = m.model.legs[stream].Origin
	m.observe(t, stream, u, func() int { return m.stream(stream).Apply(u) })
}

// anyStream draws a stream that has or had demand.
func (m *machine) anyLeg(t *rapid.T) int {
	var streams []int
	for i := range m.model.legs {
		if i == 0 || m.all[i] != nil || m.group.hasDemand(i) {
			streams = append(streams, i)
		}
	}
	return rapid.SampledFrom(streams).Draw(t, "leg")
}

func (m *machine) silence(t *rapid.T) {
	names, stream := m.names().Draw(t, "names"), m.anyLeg(t)
	if table := m.group.lookup(clusters); table == nil || !table.hasAnswered(stream) {
		t.Skip("see TestClaimsAgainstSilence for a leg that has not answered")
	}
	u := Update{Type: clusters, Kind: Partial}
	for _, n := range names {
		c := resource.Canonical(n)
		if m.model.wanted(stream, c) && (m.model.silent(c) || resource.IsGlob(c) && m.model.open(c)) {
			u.Removed = append(u.Removed, n)
		}
	}
	equal(t, "missing", m.stream(stream).Missing(clusters, names), u.Removed)
	m.observe(t, stream, u, func() int { return m.stream(stream).Absent(clusters, names) })
}

// observe applies an update now and then, and checks which subscriptions it wakes: all that see a
// difference, and no other.
func (m *machine) observe(t *rapid.T, stream int, u Update, apply func() int) {
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
	gen, floor := m.table.newest(), m.floor()
	n := apply()
	if want := m.model.apply(stream, u); n != want && m.floor() == floor { // else some names became unknown meanwhile
		t.Fatalf("%d changes, expected %d", n, want)
	}
	if moved := m.table.newest() - gen; moved != uint64(n) {
		t.Fatalf("the table went %d generations ahead for %d changes", moved, n)
	}
	m.renew(t)
	m.reap()
	m.reapNotes(floor)
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
		noted := false
		for name := range m.model.notes {
			r := m.model.shown[name]
			noted = noted || c.w.sub != nil && r != nil && m.model.covers(&c.sub, r)
		}
		for name := range m.model.said {
			noted = noted || c.w.sub != nil && c.sub.hears(name)
		}
		if noted && !woken {
			t.Fatalf("client %d (%v) has something to be told and was not woken", i, &c.sub)
		}
		if woken && n == 0 && u.Kind != Answer && !noted && !c.head().Private && !(m.globs && m.concerns(c, u)) { // this may answer a glob
			t.Fatalf("client %d was woken for nothing", i)
		}
		if woken && !changed && !c.sub.wild && !m.aliases && !m.concerns(c, u) && u.Kind != Answer {
			t.Fatalf("client %d (%v) was woken, though %v does not concern it", i, &c.sub, u)
		}
	}
}

// reap follows the table: it may drop tombstones of names without interest. fresh are names with an
// interest that began just now: the same edit may have dropped their tombstones for new ones before.
func (m *machine) reap(fresh ...string) {
	for n := range m.model.absent {
		switch e := m.table.entryOf(n); {
		case m.model.wants[n] != nil && !(e == nil && slices.Contains(fresh, n)):
		case e == nil:
			delete(m.model.absent, n)
			delete(m.model.former, n)
		default: // it may have been dropped and made again
			m.model.former[n] = e.Former()
		}
	}
}

func (m *machine) concerns(c *reader, u Update) bool {
	names := func(n string) bool { return c.sub.names[n] || c.sub.names[resource.GlobOf(n)] }
	return u.Full || slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return names(r.Key) }) ||
		slices.ContainsFunc(resource.CanonicalNames(u.Removed), names) ||
		slices.ContainsFunc(u.Errors, func(a resource.About) bool { return names(resource.Canonical(a.Name)) })
}

// take: K9: the requests to the control plane add up to the union of all demand, no name is sent
// twice, and a name whose interest ended and began again is sent again (C9), marked as such. Names
// that a wildcard brought are unsubscribed with it, and unsubscribed names are unsubscribed once
// more before they are asked for again.
func (m *machine) take(t *rapid.T) {
	all, stream := rapid.IntRange(0, 3).Draw(t, "all") == 0, m.anyLeg(t)
	sent := &m.model.requested[stream]
	if all { // a new stream
		*sent = newModelRequests()
	}
	var again, twice []string
	for n, back := range sent.returned {
		if back {
			again = append(again, n)
		}
		if back && m.model.differs[stream] && !sent.last[n] {
			twice = append(twice, n)
		}
	}
	slices.Sort(again)
	slices.Sort(twice)
	defer clear(sent.brought)
	defer clear(sent.last)
	var want []string
	for n, w := range m.model.wants {
		if m.model.route(n) == stream {
			want = append(want, n)
			w.asked = true
		}
	}
	slices.Sort(want)
	wild := m.model.wild != nil && m.model.route(everything) == stream
	if wild {
		m.model.wild.asked = true
	}
	for _, d := range m.stream(stream).TakeDemand(all, true) {
		for _, spelled := range d.Subscribe {
			n := resource.Canonical(spelled)
			if sent.names[n] != "" && (!sent.returned[n] || sent.names[n] != spelled) {
				t.Fatalf("%q is subscribed twice", spelled)
			}
			delete(sent.returned, n)
			sent.names[n] = spelled
		}
		for _, spelled := range d.Unsubscribe {
			n := resource.Canonical(spelled)
			if sent.names[n] != spelled && !sent.brought[n] {
				t.Fatalf("%q is unsubscribed, but %q was subscribed", spelled, sent.names[n])
			}
			delete(sent.brought, n)
			delete(sent.names, n)
			if m.model.differs[stream] && !wild && !sent.last[n] {
				sent.ghosts[n] = true
			}
		}
		if !all {
			equal(t, "names that came back", slices.Sorted(slices.Values(resource.CanonicalNames(d.Again))), again)
			equal(t, "names to be dropped twice", slices.Sorted(slices.Values(resource.CanonicalNames(d.Twice))), twice)
		}
		if d.WildcardChanged && !d.Wildcard && !sent.wild {
			t.Fatal("the wildcard is left, but was not joined")
		}
		sent.wild = d.Wildcard
		equal(t, "names", slices.Sorted(slices.Values(resource.CanonicalNames(d.Names))), want)
	}
	for n, held := range sent.brought {
		if held && m.model.wants[n] == nil {
			t.Fatalf("%q is not unsubscribed, although the origin takes it for held", n)
		}
	}
	equal(t, "names told", sortedKeys(sent.names), want) // no stream gets another's names (G3)
	equal(t, "wildcard told", sent.wild, wild)
	for n, back := range sent.returned {
		if back && m.model.wants[n] != nil {
			t.Fatalf("%q came back, but was not subscribed again", n)
		}
	}
}

// release applies the removals that are held back.
func (m *machine) release(t *rapid.T) {
	held := 0
	for _, names := range m.model.guarded {
		held += len(names)
	}
	equal(t, "held removals", m.table.info().HeldRemovals, held)
	m.model.notes, m.model.said = make(map[string]bool), make(map[string]bool)
	m.model.release()
	equal(t, "released", m.group.Release(), held)
	m.reap()
}

// expire ends all linger times.
func (m *machine) expire(*rapid.T) {
	m.table.expire(time.Now().Add(2*time.Hour), make(map[*Subscription]struct{}))
	var subs []*sub
	for _, c := range m.clients {
		subs = append(subs, &c.sub)
	}
	m.model.expire(subs)
	for _, sent := range m.model.requested {
		maps.DeleteFunc(sent.returned, func(n string, _ bool) bool { return m.model.wants[n] == nil })
	}
}

// check verifies what must be true at any time.
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
		equal(t, "wildcard", h.HasWildcard(), c.sub.wild)
		equal(t, "known", h.Answer == Answered, m.model.known(&c.sub))
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
	for stream, f := range m.all {
		if f == nil {
			continue
		}
		held := make(map[string]string)
		for n, c := range m.model.copies[stream] {
			if c.version != "" && !m.model.guarded[stream][n] { // the control plane does not have it (K16)
				held[c.res.Name] = c.version
			}
		}
		if got := f.Held(clusters); !maps.Equal(got, held) { // C8
			t.Fatalf("leg %d holds %v, expected %v", stream, got, held)
		}
	}
}

func equal[T any](t rapid.TB, what string, got, want T) {
	t.Helper()
	if !equalValues(got, want) {
		t.Fatalf("%s: %v, expected %v", what, got, want)
	}
}
