package cache

import (
	"errors"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// reader is a client with a copy of all that it was sent.
type reader struct {
	client
	sub    sub
	sotw   bool // asks for the full state
	force  *Names
	held   map[string]*resource.Resource
	kept   bool            // removals were held back
	owed   bool            // a full state, even an empty one (B24)
	claims []resource.Held // of which nothing is known yet
	ghosts map[string]bool // names that it has from elsewhere and that are unknown here
	// refresh and more are of an answer in parts that it has not read to its
	// end (B40).
	refresh *Names
	more    bool
	timed   bool           // supports TTLs
	lives   map[string]int // what it was sent about TTLs; see model.beats
	errs    map[string]string
	spared  map[string]bool // what it has although it is not served, because the control plane did not report a removal (C16)
}

// forget makes c empty.
func (c *reader) forget() {
	c.held, c.ghosts = make(map[string]*resource.Resource), make(map[string]bool)
	c.lives, c.errs = make(map[string]int), make(map[string]string)
	c.spared = make(map[string]bool)
}

// follow reads the changes for a client, which may lose the answer (as after a
// NACK, B16), hold removals back (E5), or read the first part only (B40).
func (m *machine) follow(t *rapid.T) {
	c := m.pick(t)
	q := Query{
		KeepRemoved: !m.aliases && c.at.Gen > 0 && c.at.Removed <= c.at.Gen && rapid.Bool().Draw(t, "keep"),
		Refresh:     KeysOf(m.names().Draw(t, "refresh")),
		Limit:       rapid.SampledFrom([]int{0, 0, 1, 80, 120, 200}).Draw(t, "limit"),
	}
	read := m.read
	if rapid.Bool().Draw(t, "one part") {
		read = func(t *rapid.T, c *reader, q Query) { m.readPart(t, c, q) }
	}
	m.settle(c)
	if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
		before := *c
		before.held, before.ghosts, before.lives, before.errs = maps.Clone(c.held), maps.Clone(c.ghosts), maps.Clone(c.lives), maps.Clone(c.errs)
		before.spared = maps.Clone(c.spared)
		read(t, c, q)
		c.spared = before.spared
		c.at, c.force, c.held, c.ghosts = before.at, before.force.With(c.force), before.held, before.ghosts
		c.kept, c.owed, c.more, c.lives, c.errs = before.kept, before.owed, before.more, before.lives, before.errs
		return
	}
	read(t, c, q)
}

// demand reads what a client asks for on demand, ahead of everything else (E7).
func (m *machine) demand(t *rapid.T) {
	c := m.pick(t)
	if c.sub.names == nil || c.sotw || c.claims != nil || c.kept {
		return
	}
	q := Query{
		Since: c.at, Force: KeysOf(m.names().Draw(t, "demanded")), Scope: OnDemand,
		Limit: rapid.SampledFrom([]int{0, 1, 80, 120}).Draw(t, "limit"),
	}
	got, err := m.table.Changes(&c.w, q)
	if err != nil {
		return // the next read will start over
	}
	send, refresh, more := c.force, c.refresh, c.more
	got.Removed = resource.CanonicalNames(got.Removed)
	c.take(got, q)
	c.force, c.refresh, c.more = send.With(got.Withheld), refresh, more
}

// settle sends a client the result of its claims.
func (m *machine) settle(c *reader) {
	gone, rest, _ := m.table.Gone(&c.w, nil, c.claims)
	c.force, c.claims = c.force.With(gone), rest
}

// read reads until there is no more, and compares what the client then has with what it should see.
func (m *machine) read(t *rapid.T, c *reader, q Query) {
	fresh, removed := c.at == Start && !q.Scope.isWhole() && c.claims == nil, []string{}
	forced := c.force
	for parts, more := 0, true; more; parts++ {
		if parts > 1000 {
			t.Fatalf("no end after %d parts, at %v", parts, c.at)
		}
		q.KeepRemoved = q.KeepRemoved && c.at.Removed <= c.at.Gen
		var sent []string
		sent, more = m.readPart(t, c, q)
		removed, q.Refresh = append(removed, sent...), nil
	}
	if c.sub.names == nil {
		return
	}
	if fresh && !c.sotw && c.at != Start { // B34
		unforced := func(names []string) []string {
			return slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(n string) bool { return slices.Contains(forced.list(), n) })
		}
		equal(t, "absent names told", unforced(removed), unforced(sortedKeys(m.model.gone(&c.sub))))
	}
	view := m.model.view(&c.sub)
	for n, r := range view {
		if c.held[n] != r {
			t.Fatalf("%v holds %v of %q, expected %v", &c.sub, c.held[n], n, r)
		}
	}
	for n := range c.held {
		if view[n] == nil && !c.ghosts[n] && !c.kept && !c.spared[n] && (!m.model.denied[n] || c.sotw && !m.table.hides(n)) {
			t.Fatalf("%v still holds %q", &c.sub, n)
		}
	}
}

// readPart reads one answer. It returns the removed names, and whether there is
// more.
func (m *machine) readPart(t *rapid.T, c *reader, q Query) (removed []string, more bool) {
	if c.sub.names == nil {
		got, err := m.table.Changes(&c.w, Query{Since: c.at})
		if err != nil || !got.Empty() || got.To != c.at || c.head() != (SubscriptionState{}) {
			t.Fatalf("somebody without a subscription gets %+v, %v", got, err)
		}
		return nil, false
	}
	m.settle(c)
	q.Since, q.Force, q.Refresh = c.at, c.force, q.Refresh.With(c.refresh)
	if c.timed {
		q.Reader = TTLClient
	}
	if c.sotw {
		q.Scope = FullState
	}
	got, err := m.table.Changes(&c.w, q)
	if err != nil {
		if !errors.Is(err, ErrTooOld) || c.at.Removed >= m.floor() || c.at == Start {
			t.Fatalf("%v: %v", c.at, err)
		}
		m.table.Leave(&c.w)
		m.table.Replace(&c.w, c.sub.wild, sortedKeys(c.sub.names))
		*c = reader{client: c.client, sub: c.sub, sotw: c.sotw, timed: c.timed}
		c.forget()
		c.at = Start
		return nil, true
	}
	got.Removed = slices.Sorted(slices.Values(resource.CanonicalNames(got.Removed)))
	view := m.model.view(&c.sub)
	m.judge(t, c, q, got, view)
	m.withdraws(t, c, q, got)
	m.look(t, c, view)
	c.take(got, q)
	m.heard(t, c, got)
	for _, n := range q.Force.list() {
		if c.held[n] != nil && m.unknownTo(&c.sub, n) {
			c.ghosts[n] = true // a claim became unknown before its removal was sent (K13)
		}
	}
	m.spare(c, q, got)
	for n := range c.ghosts {
		if !m.unknownTo(&c.sub, n) {
			delete(c.ghosts, n)
		}
	}
	return got.Removed, got.More
}

// withdraws compares an answer that holds removals back with one that does not. If the former
// withdraws nothing and is no part, they are equal.
func (m *machine) withdraws(t *rapid.T, c *reader, q Query, kept Changes) {
	if !q.KeepRemoved {
		return
	}
	q.KeepRemoved = false
	all, err := m.table.Changes(&c.w, q)
	if err != nil {
		t.Fatalf("%v: %v", c.at, err)
	}
	if all.Removals != NoRemovals || all.More || kept.More { // a part ends earlier if a removal follows it
		return
	}
	equal(t, "what is told", said(all), said(kept))
	equal(t, "heartbeats", said(Changes{Resources: all.Heartbeats}), said(Changes{Resources: kept.Heartbeats}))
	equal(t, "errors", len(all.Errors), len(kept.Errors))
	equal(t, "told later", all.Withheld.list(), kept.Withheld.list())
	equal(t, "refreshed later", all.Unrefreshed.list(), kept.Unrefreshed.list())
	equal(t, "version", all.Version, kept.Version)
}

// unknownTo reports whether nothing is known of a name for a client with interest s.
func (m *machine) unknownTo(s *sub, n string) bool {
	wild := m.model.route(everything)
	switch g := resource.GlobOf(n); {
	case s.names[n]:
		return m.model.unknown(n)
	case s.names[g]:
		return m.model.unknown(n) && m.model.open(g) && !(s.wild && m.model.wild.answered && m.model.route(n) == wild)
	case !s.wild:
		return m.model.unknown(n)
	}
	for _, r := range m.model.shown {
		if m.model.member(r.Key) && (r.Key == n || resource.GlobOf(r.Key) == n || slices.Contains(r.Aliases, n)) {
			return false
		}
	}
	e := m.table.entryOf(n)
	return !m.model.wild.answered && m.model.sameOrigin(m.model.route(n), wild) && (e == nil || e.Wild == 0)
}

// judge checks an answer by itself.
func (m *machine) judge(t *rapid.T, c *reader, q Query, got Changes, view map[string]*resource.Resource) {
	names := append([]string(nil), got.Removed...)
	shown := make(map[string]*resource.Resource)
	for _, r := range got.Resources {
		names = append(names, r.Key)
		shown[r.Key] = r
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) { // B29
		t.Fatalf("a name stands twice: %v", said(got))
	}
	for _, n := range got.Removed {
		if resource.IsGlob(n) && (m.model.goBy(n) && c.sub.names[n] || !c.sub.names[n] && !slices.Contains(q.Force.list(), n)) { // G7
			t.Fatalf("%v is told that %q is empty", &c.sub, n)
		}
		if view[n] != nil || q.KeepRemoved {
			t.Fatalf("%q is removed, but it is there (or held back: %t)", n, q.KeepRemoved)
		}
		forced := slices.Contains(q.Force.list(), n)
		if !forced && len(c.sub.names) == 0 && !m.model.met[n] && m.model.route(n) != m.model.route(everything) { // D11
			t.Fatalf("%v is told that %q is gone, which was never there", &c.sub, n)
		}
	}
	for n, r := range shown {
		if view[n] != r && !(q.KeepRemoved && q.Scope.isWhole() && view[n] == nil) { // D12
			t.Fatalf("%v is told of %q, which it does not see", &c.sub, n)
		}
	}
	for _, n := range q.Force.list() {
		sent := slices.Contains(got.Removed, n) || slices.ContainsFunc(got.Withheld.list(), func(later string) bool {
			return later == n || got.More && resource.GlobOf(later) == n
		})
		if got.More && sent && !slices.Contains(got.Removed, n) {
			continue // it was not examined yet
		}
		for _, r := range shown {
			sent = sent || r.Key == n || resource.GlobOf(r.Key) == n || slices.Contains(r.Aliases, n)
		}
		wanted := c.sub.wild || c.sub.names[n] || c.sub.names[resource.GlobOf(n)]
		refused := wanted && (m.model.denied[n] || m.model.errors[n] != "") // see machine.heard
		if !sent && !refused && !(wanted && m.unknownTo(&c.sub, n)) {
			t.Fatalf("%v is not told about %q", &c.sub, n)
		}
		answered := c.sub.wild && m.model.wild.answered && (!c.sub.names[n] || m.model.wants[n].answered && m.model.route(n) == m.model.route(everything))
		denied := sent && (slices.Contains(got.Removed, n) || slices.Contains(got.Withheld.list(), n))
		if denied && !refused && m.unknownTo(&c.sub, n) && wanted && !answered { // K13
			t.Fatalf("%v is told about %q, for which nobody has answered", &c.sub, n)
		}
	}
	for _, n := range q.Refresh.list() {
		later := got.More && (slices.Contains(got.Unrefreshed.list(), n) || view[n] != nil && m.table.entryOf(n).Gen > q.Since.Gen)
		if view[n] != nil && shown[n] == nil && !later { // E3
			t.Fatalf("%q was not refreshed", n)
		}
	}
	equal(t, "known", got.Known, m.model.known(&c.sub)) // K13
	if q.Scope.isWhole() && !got.Empty() && !q.KeepRemoved && !maps.Equal(shown, view) {
		t.Fatalf("the full state of %v is %v, not %v", &c.sub, sortedKeys(shown), sortedKeys(view))
	}
	if got.Version == "" {
		t.Fatal("no version")
	}
	if got.Derived { // D7
		all := view
		if q.Scope.isWhole() && !got.Empty() {
			all = shown
		}
		equal(t, "version", got.Version, m.model.digest(all).Hex())
	} else if got.Version != m.model.version(&c.sub, view) {
		t.Fatalf("version %q of %v, but the origin's is %q", got.Version, &c.sub, m.model.version(&c.sub, view))
	}
	if v := m.model.version(&c.sub, view); v != "" && len(shown) <= len(view) && got.Derived {
		t.Fatalf("the origin's version %q does not pass through", v)
	}
	if got.To.Gen < q.Since.Gen || got.To.Gen < c.head().Gen && !got.More {
		t.Fatalf("from %v to %v, but the head is %v", q.Since, got.To, c.head())
	}
	m.judgePart(t, c, q, got, view)
}

// judgePart checks an answer that has a limit (B40), and that it splits no update that would fit
// (D13).
func (m *machine) judgePart(t *rapid.T, c *reader, q Query, got Changes, view map[string]*resource.Resource) {
	size, n := 0, len(got.Resources)+len(got.Removed)
	for _, r := range got.Resources {
		size += r.WireSize()
	}
	for _, n := range got.Removed {
		size += len(n)
	}
	if q.Limit > 0 && !q.Scope.isWhole() && size > q.Limit && n > 1 && !m.aliases { // resources with one name are not divided
		t.Fatalf("%d bytes, the limit is %d: %v", size, q.Limit, said(got))
	}
	if !got.More {
		return
	}
	if q.Limit == 0 || q.Scope.isWhole() || n == 0 {
		t.Fatalf("there is more after %v, with a limit of %d (whole: %t)", said(got), q.Limit, q.Scope.isWhole())
	}
	began, others := make(map[uint64]bool), 0 // updates that this answer began
	for _, r := range got.Resources {
		e := m.table.entryOf(r.Key)
		if _, gen := c.w.sub.sees(e); gen > q.Since.Gen && gen <= got.To.Gen && gen == e.Gen {
			began[e.First] = true
		} else {
			others++
		}
	}
	for n, e := range m.table.all() {
		_, gen := c.w.sub.sees(e)
		torn := view[n] != nil && gen > got.To.Gen && gen == e.Gen && began[e.First]
		if torn && len(began)+others > 1 {
			t.Fatalf("the update at %d is torn, but other news came with its beginning: %v", e.First, said(got))
		}
	}
}

// look checks what a client without a position gets.
func (m *machine) look(t *rapid.T, c *reader, view map[string]*resource.Resource) {
	seen, all := m.table.Content(&c.w)
	shown := make(map[string]*resource.Resource)
	for _, r := range all {
		shown[r.Key] = r
	}
	if len(shown) != len(all) || !maps.Equal(shown, view) {
		t.Fatalf("%v sees %v, not %v", &c.sub, sortedKeys(shown), sortedKeys(view))
	}
	equal(t, "seen", seen, Seen{Version: m.model.digest(view).Hex(), Resources: len(view), Source: m.model.source(&c.sub), Gen: m.table.newest()})
	equal(t, "seen without the resources", m.table.Seen(&c.w), seen)
}

// take updates the content of c.
func (c *reader) take(got Changes, q Query) {
	if q.Scope.isWhole() && (!got.Empty() || c.owed) {
		kept := c.held
		c.owed = false
		c.held = make(map[string]*resource.Resource)
		for n := range kept {
			delete(c.ghosts, n)
		}
	}
	for _, r := range got.Resources {
		c.held[r.Key] = r
		delete(c.ghosts, r.Key)
	}
	for _, n := range got.Removed {
		delete(c.held, n)
		delete(c.ghosts, n)
	}
	for _, n := range got.Unjudged.list() {
		c.claims = append(c.claims, resource.Held{Name: n})
	}
	c.at, c.force, c.refresh, c.kept, c.more = got.To, got.Withheld, got.Unrefreshed, q.KeepRemoved, got.More
}
