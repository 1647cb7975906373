package cache

import (
	"errors"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// reader is a client with a copy of all that it was told.
type reader struct {
	client
	sub    sub
	sotw   bool // asks for the full state
	tell   *Names
	held   map[string]*resource.Resource
	kept   bool            // removals were held back
	owed   bool            // a full state, even an empty one (B24)
	claims []resource.Held // of which nothing is known yet
	ghosts map[string]bool // names that it holds from elsewhere and nobody knows
}

// follow reads the changes for a client, which may lose the answer (as after a
// NACK, B16), or hold removals back (E5).
func (m *machine) follow(t *rapid.T) {
	c := m.pick(t)
	q := Query{
		KeepRemoved: !m.aliases && c.at.Gen > 0 && rapid.Bool().Draw(t, "keep"),
		Refresh:     NewNames(slices.Clone(genNames.Draw(t, "refresh"))),
	}
	if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
		before := *c
		before.held, before.ghosts = maps.Clone(c.held), maps.Clone(c.ghosts)
		m.read(t, c, q)
		c.at, c.tell, c.held, c.ghosts = before.at, before.tell.With(c.tell), before.held, before.ghosts
		c.kept, c.owed = before.kept, before.owed
		return
	}
	m.read(t, c, q)
}

func (m *machine) read(t *rapid.T, c *reader, q Query) {
	if c.sub.names == nil {
		got, err := m.table.Changes(&c.w, Query{Since: c.at})
		if err != nil || !got.Empty() || got.To != c.at || c.head() != (Head{}) {
			t.Fatalf("somebody without a subscription gets %+v, %v", got, err)
		}
		return
	}
	if c.claims != nil && m.model.known(&c.sub) {
		c.tell = c.tell.With(m.table.Gone(&c.w, c.claims))
		c.claims = nil
	}
	fresh := c.at == Start
	q.Since, q.Force, q.Whole = c.at, c.tell, c.sotw
	got, err := m.table.Changes(&c.w, q)
	if err != nil {
		if !errors.Is(err, ErrTooOld) || c.at.Removed >= max(m.table.floor, m.table.aliasFloor) || fresh {
			t.Fatalf("%v: %v", c.at, err)
		}
		m.table.Leave(&c.w)
		m.table.Replace(&c.w, c.sub.wild, sortedKeys(c.sub.names))
		c.at, c.tell, c.held, c.claims, c.ghosts, c.kept = Start, nil, make(map[string]*resource.Resource), nil, make(map[string]bool), false
		m.read(t, c, Query{})
		return
	}
	view := m.model.view(&c.sub)
	m.judge(t, c, q, got, view)
	m.look(t, c, view)
	if fresh && !q.Whole { // B34
		equal(t, "absent names told", slices.DeleteFunc(slices.Clone(got.Removed), func(n string) bool {
			return slices.Contains(q.Force.list(), n)
		}), slices.DeleteFunc(sortedKeys(m.model.gone(&c.sub)), func(n string) bool { return slices.Contains(q.Force.list(), n) }))
	}
	c.take(got, q)
	for _, n := range q.Force.list() {
		if c.held[n] != nil && m.model.unknown(n) {
			c.ghosts[n] = true // what it claimed became unknown before it was told (K13)
		}
	}
	for n := range c.ghosts {
		if !m.model.unknown(n) {
			delete(c.ghosts, n)
		}
	}
	for n, r := range view {
		if c.held[n] != r {
			t.Fatalf("%v holds %v of %q, expected %v", &c.sub, c.held[n], n, r)
		}
	}
	for n := range c.held {
		if view[n] == nil && !c.ghosts[n] && !c.kept {
			t.Fatalf("%v still holds %q", &c.sub, n)
		}
	}
}

// judge checks an answer by itself.
func (m *machine) judge(t *rapid.T, c *reader, q Query, got Changes, view map[string]*resource.Resource) {
	names := append([]string(nil), got.Removed...)
	shown := make(map[string]*resource.Resource)
	for _, r := range got.Resources {
		names = append(names, r.Name)
		shown[r.Name] = r
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) { // B29
		t.Fatalf("a name stands twice: %v", said(got))
	}
	for _, n := range got.Removed {
		if view[n] != nil || q.KeepRemoved {
			t.Fatalf("%q is removed, but it is there (or held back: %t)", n, q.KeepRemoved)
		}
	}
	for n, r := range shown {
		if view[n] != r && !(q.KeepRemoved && q.Whole && m.model.live[n] == nil) { // D12
			t.Fatalf("%v is told of %q, which it does not see", &c.sub, n)
		}
	}
	for _, n := range q.Force.list() {
		told := slices.Contains(got.Removed, n) || slices.Contains(got.Withheld.list(), n)
		for _, r := range shown {
			told = told || r.Name == n || slices.Contains(r.Aliases, n)
		}
		if !told && (!m.model.unknown(n) || !c.sub.names[n] && !c.sub.wild) {
			t.Fatalf("%v is not told about %q", &c.sub, n)
		}
		answered := c.sub.wild && m.model.wild.answered && (!c.sub.names[n] || m.model.wants[n].answered)
		if told && m.model.unknown(n) && (c.sub.wild || c.sub.names[n]) && !answered { // K13
			t.Fatalf("%v is told about %q, for which nobody has answered", &c.sub, n)
		}
	}
	for _, n := range q.Refresh.list() {
		if view[n] != nil && shown[n] == nil { // E3
			t.Fatalf("%q was not refreshed", n)
		}
	}
	equal(t, "known", got.Known, m.model.known(&c.sub)) // K13
	if q.Whole && !got.Empty() && !q.KeepRemoved && !maps.Equal(shown, view) {
		t.Fatalf("the full state of %v is %v, not %v", &c.sub, sortedKeys(shown), sortedKeys(view))
	}
	if got.Version == "" {
		t.Fatal("no version")
	}
	if got.Derived { // D7
		all := view
		if q.Whole && !got.Empty() {
			all = shown
		}
		equal(t, "version", got.Version, m.model.digest(all).Hex())
	} else if got.Version != m.model.version || len(view) != len(m.model.live) {
		t.Fatalf("version %q, but the origin's is %q, and %d of %d are seen", got.Version, m.model.version, len(view), len(m.model.live))
	}
	if m.model.version != "" && len(view) == len(m.model.live) && len(shown) <= len(view) && got.Derived {
		t.Fatalf("the origin's version %q does not pass through", m.model.version)
	}
	if got.To.Gen < q.Since.Gen || got.To.Gen < c.head().Gen {
		t.Fatalf("from %v to %v, but the head is %v", q.Since, got.To, c.head())
	}
}

// look checks what a client without a position is told.
func (m *machine) look(t *rapid.T, c *reader, view map[string]*resource.Resource) {
	seen, all := m.table.Content(&c.w)
	shown := make(map[string]*resource.Resource)
	for _, r := range all {
		shown[r.Name] = r
	}
	if len(shown) != len(all) || !maps.Equal(shown, view) {
		t.Fatalf("%v sees %v, not %v", &c.sub, sortedKeys(shown), sortedKeys(view))
	}
	equal(t, "seen", seen, Seen{Version: m.model.digest(view).Hex(), Resources: len(view), Source: m.table.legs[0].source})
	equal(t, "seen without the resources", m.table.Seen(&c.w), seen)
}

// take updates what c holds.
func (c *reader) take(got Changes, q Query) {
	if q.Whole && (!got.Empty() || c.owed) {
		kept := c.held
		c.owed = false
		c.held = make(map[string]*resource.Resource)
		for n := range kept {
			delete(c.ghosts, n)
		}
	}
	for _, r := range got.Resources {
		c.held[r.Name] = r
		delete(c.ghosts, r.Name)
	}
	for _, n := range got.Removed {
		delete(c.held, n)
		delete(c.ghosts, n)
	}
	c.at, c.tell, c.kept = got.To, got.Withheld, q.KeepRemoved
}
