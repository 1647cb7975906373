package table

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

var clusters = resource.TypeOf(resource.ClusterURL)

// A structured name, and the glob that covers it.
const (
	member = "xdstp://a/envoy.config.cluster.v3.Cluster/x/one"
	glob   = "xdstp://a/envoy.config.cluster.v3.Cluster/x/*"
)

// epoch is the time of the tests.
var epoch = time.Unix(1_700_000_000, 0)

// change gives name a state, as a table does.
func change(s *Store, name string, st State) (forgotten []string) {
	first := s.Next()
	e, _ := s.Open(name)
	s.Put(e, st, first, epoch)
	if st.Res == nil {
		s.AddTombstone(e)
		s.Reap(0, 0, func(name string) { forgotten = append(forgotten, name) })
	}
	return forgotten
}

// put makes res the copy of a stream. The wildcard belongs to stream 0.
func put(s *Store, stream int, res *resource.Resource) {
	var second *Copy
	var old *resource.Resource
	if e := s.Get(res.Key); e != nil && e.Res != nil {
		if h := e.CopyFrom(stream); h != nil {
			old = h.Res
		}
		second = e.OtherCopy(stream)
	}
	s.Count(stream, old, res)
	change(s, res.Key, State{Copy: Copy{Stream: stream, Version: res.Version, Res: res}, Second: second, Member: stream == 0 || second != nil})
	e := s.Get(res.Key)
	s.SetTTL(e, stream, res.TTL, epoch)
	if e.TTLState != nil {
		s.NoteTTL(e, false)
	}
}

// drop releases the copy of a stream, if it has one.
func drop(s *Store, stream int, name string) (forgotten []string) {
	e := s.Get(name)
	if e == nil || e.CopyFrom(stream) == nil {
		return nil
	}
	s.Count(stream, e.CopyFrom(stream).Res, nil)
	if rest := e.OtherCopy(stream); rest != nil {
		return change(s, name, State{Copy: *rest, Member: rest.Stream == 0})
	}
	return change(s, name, State{Noticed: stream == 0})
}

// machine compares a store with a model that keeps the copies of each name.
type machine struct {
	store  Store
	copies [2]map[string]*resource.Resource // by stream
	wanted map[string]bool
	// now has the generations of the last changes, and left those at which names that have not
	// returned left the wildcard set. The model forgets nothing.
	now, left map[string]uint64
}

var names = []string{"a", "b", "c", "d", member, "xdstp://a/envoy.config.cluster.v3.Cluster/x/two"}

// TestStoreAgainstModel: whatever changes, the store has what the model has, finds it by all its
// names, has its changes in order, and counts what a count from scratch finds.
func TestStoreAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machine{wanted: make(map[string]bool), now: make(map[string]uint64), left: make(map[string]uint64)}
		m.copies = [2]map[string]*resource.Resource{{}, {}}
		m.store = New(clusters, 2, func(name string) bool { return m.wanted[name] })
		t.Repeat(map[string]func(*rapid.T){
			"put": m.put, "drop": m.drop, "want": m.want, "expire": m.expire, "empty": m.empty, "scan": m.scan, "": m.check,
		})
	})
}

func (m *machine) put(t *rapid.T) {
	stream, r := rapid.IntRange(0, 1).Draw(t, "stream"), resource.Resource{Name: rapid.SampledFrom(names).Draw(t, "name")}
	r.Version = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version")
	r.Body = []byte(r.Version)
	r.Aliases = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "x", "y"}), 0, 2, rapid.ID).Draw(t, "aliases")
	r.TTL = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "ttl")
	res := resource.New(r)
	put(&m.store, stream, res)
	m.copies[stream][res.Key] = res
	m.now[res.Key] = m.store.Gen()
	if stream == 0 {
		delete(m.left, res.Key)
	}
}

func (m *machine) drop(t *rapid.T) {
	stream, name := rapid.IntRange(0, 1).Draw(t, "stream"), rapid.SampledFrom(names).Draw(t, "name")
	if m.copies[stream][name] != nil {
		m.release(t, stream, name)
	}
}

func (m *machine) release(t *rapid.T, stream int, name string) {
	before := m.store.Tombstones()
	delete(m.copies[stream], name)
	for _, n := range drop(&m.store, stream, name) {
		if m.wanted[n] || m.exists(n) {
			t.Fatalf("%q is forgotten, although clients ask for it", n)
		}
		before--
	}
	m.now[name] = m.store.Gen()
	if stream == 0 {
		m.left[name] = m.store.Gen()
	}
	if gone := !m.exists(name); gone && m.store.Tombstones() != before+1 || !gone && m.store.Tombstones() != before {
		t.Fatalf("%d tombstones, %d before", m.store.Tombstones(), before)
	}
}

// want begins or ends the interest in a name.
func (m *machine) want(t *rapid.T) {
	name := rapid.SampledFrom(append([]string{"x", "y", glob}, names...)).Draw(t, "wanted")
	if m.wanted[name] = !m.wanted[name]; m.wanted[name] && resource.IsGlob(name) {
		m.store.AddGlob(name)
	} else if resource.IsGlob(name) {
		m.store.DropGlob(name)
	}
}

// expire lets the TTLs end that have passed by a time.
func (m *machine) expire(t *rapid.T) {
	now := epoch.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "after"))
	for l := m.store.Due(now); l != nil; l = m.store.Due(now) {
		for _, h := range l.Entry.Copies() {
			if h.TTLState == l {
				m.release(t, h.Stream, l.Entry.Name)
			}
		}
	}
	for _, copies := range m.copies {
		for name, res := range copies {
			if res.TTL > 0 && !epoch.Add(res.TTL).After(now) {
				t.Fatalf("the TTL of %q has passed", name)
			}
		}
	}
}

// empty removes a name without a change.
func (m *machine) empty(t *rapid.T) {
	e := m.store.Get(rapid.SampledFrom(names).Draw(t, "emptied"))
	if e == nil {
		return
	}
	if m.store.Empty(e); rapid.Bool().Draw(t, "forgotten") {
		m.store.Forget(e)
	}
	delete(m.copies[0], e.Name)
	delete(m.copies[1], e.Name)
	delete(m.now, e.Name)
	delete(m.left, e.Name)
}

// scan holds that a scan yields each entry once that is there all the time, and no removed one,
// whatever happens in its pauses.
func (m *machine) scan(t *rapid.T) {
	before, seen := maps.Clone(m.store.entries), make(map[string]int)
	pause := func() {
		switch rapid.IntRange(0, 3).Draw(t, "meanwhile") {
		case 0:
			m.put(t)
		case 1:
			m.empty(t)
		case 2:
			if m.store.fitted == nil {
				m.store.Fit(1, func() { m.put(t) })
			}
		}
	}
	for name, e := range m.store.Scan(1, pause) {
		if seen[name]++; m.store.Get(name) != e {
			t.Fatalf("%q is not there", name)
		}
	}
	for name, n := range seen {
		if n > 1 && m.store.Get(name) == before[name] {
			t.Fatalf("%q comes %d times", name, n)
		}
	}
	for name, e := range before {
		if m.store.Get(name) == e && seen[name] != 1 {
			t.Fatalf("%q is there all the time, and comes %d times", name, seen[name])
		}
	}
}

func (m *machine) exists(name string) bool {
	return m.copies[0][name] != nil || m.copies[1][name] != nil
}

// shown is what clients see of a name: the copy that was put last.
func (m *machine) shown(name string) *resource.Resource {
	if e := m.store.Get(name); e != nil && e.Res != nil {
		return e.Res
	}
	return nil
}

func (m *machine) check(t *rapid.T) {
	s := &m.store
	if wrong := s.Check(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	live := 0
	for _, name := range names {
		res := m.shown(name)
		if (res != nil) != m.exists(name) || res != nil && res != m.copies[0][name] && res != m.copies[1][name] {
			t.Fatalf("%q is %v", name, res)
		}
		if res != nil {
			live++
		}
	}
	if _, members := s.Wildcard(); live != s.Live() || members != len(m.copies[0]) {
		t.Fatalf("%d resources, and %d in the wildcard set, expected %d and %d", s.Live(), members, live, len(m.copies[0]))
	}
	for _, name := range append([]string{"x", "y", glob}, names...) {
		m.checkName(t, name)
	}
	m.checkOrder(t)
}

// checkName holds that a name finds what has it.
func (m *machine) checkName(t *rapid.T, name string) {
	want := make(map[string]bool)
	for _, n := range names {
		if res := m.shown(n); res != nil && (n == name || slices.Contains(res.Aliases, name) || resource.GlobOf(n) == name) {
			want[n] = true
		}
	}
	got := make(map[string]bool)
	m.store.EachOf(name, func(e *Entry) {
		if e.Res == nil || !e.GoesBy(name) {
			return // it had the name
		}
		if got[e.Name] {
			t.Fatalf("%q finds %q twice", name, e.Name)
		}
		got[e.Name] = true
	})
	if !maps.Equal(got, want) || m.store.Exists(name) != (len(want) > 0) {
		t.Fatalf("%q finds %v (exists: %t), expected %v", name, got, m.store.Exists(name), want)
	}
}

// checkOrder holds that the entries are in the order of their changes, and that removals
// from the wildcard set that are forgotten are not above the floor.
func (m *machine) checkOrder(t *rapid.T) {
	last := m.store.Gen() + 1
	for e := m.store.Newest(); e != nil; e = e.Older() {
		if at, is := m.now[e.Name]; e.Gen >= last || is && at != e.Gen {
			t.Fatalf("%q changed at %d, after %d, expected %d", e.Name, e.Gen, last, at)
		}
		last = e.Gen
	}
	floor, _ := m.store.Floors()
	for name, at := range m.left {
		if m.store.Get(name) == nil && at > floor {
			t.Fatalf("the removal of %q at %d is forgotten, above the floor %d", name, at, floor)
		}
	}
}
