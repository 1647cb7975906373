package cache

import (
	"fmt"
	"slices"
	"strings"

	"xdsrelay/relay/resource"
)

// model is a table in plain maps: everything is computed anew when it is asked
// for, and nothing is kept in step.
type model struct {
	live    map[string]*resource.Resource
	held    map[string]string   // versions as the origin gave them
	absent  map[string]bool     // known not to exist
	former  map[string][]string // aliases that were, while somebody wanted them
	version string              // of the last full state, while it is all there is

	wants    map[string]*modelWant // by name; lingering ones too
	wild     *modelWant            // nil: not wanted
	told     map[string]string     // what the origin believes is wanted, as it was told
	toldWild bool
	returned map[string]bool // dropped and wanted again since the origin was told
	brought  map[string]bool // by a wildcard that was left since the origin was told
}

type modelWant struct{ asked, answered bool }

func newModel() *model {
	return &model{
		live: make(map[string]*resource.Resource), held: make(map[string]string),
		absent: make(map[string]bool), former: make(map[string][]string),
		wants: make(map[string]*modelWant), told: make(map[string]string), returned: make(map[string]bool),
		brought: make(map[string]bool),
	}
}

// sub is what a client wants.
type sub struct {
	wild  bool
	names map[string]bool
}

func (s *sub) String() string {
	return fmt.Sprint(s.wild, " ", strings.Join(sortedKeys(s.names), ","))
}

func (s *sub) covers(r *resource.Resource) bool {
	return s.wild || s.names[r.Key] || s.names[resource.GlobOf(r.Key)] || slices.ContainsFunc(r.Aliases, func(a string) bool { return s.names[a] })
}

// view is all that s sees.
func (m *model) view(s *sub) map[string]*resource.Resource {
	seen := make(map[string]*resource.Resource)
	for n, r := range m.live {
		if s.covers(r) {
			seen[n] = r
		}
	}
	return seen
}

// goBy reports whether a live resource goes by name.
func (m *model) goBy(name string) bool {
	for _, r := range m.live {
		if r.Key == name || resource.GlobOf(r.Key) == name || slices.Contains(r.Aliases, name) {
			return true
		}
	}
	return false
}

func (m *model) unknown(name string) bool { return !m.absent[name] && !m.goBy(name) }

// missing is what s asks for by name and is known not to exist.
func (m *model) missing(s *sub) map[string]bool {
	out := make(map[string]bool)
	for n := range m.absent {
		if s.names[n] && !m.goBy(n) {
			out[n] = true
		}
	}
	return out
}

// gone is missing, and what somebody who wanted s may know by an alias.
func (m *model) gone(s *sub) map[string]bool {
	out := m.missing(s)
	for n := range m.absent {
		if slices.ContainsFunc(m.former[n], func(a string) bool { return s.names[a] }) {
			out[n] = true
		}
	}
	return out
}

// known reports whether the origin has answered for all of s.
func (m *model) known(s *sub) bool {
	if s.wild && !m.wild.answered {
		return false
	}
	for n := range s.names {
		if m.open(n) {
			return false
		}
	}
	return true
}

// open reports whether nothing is known of a wanted name, or, of a glob, whether
// that is all (K13).
func (m *model) open(name string) bool {
	answered := m.wants[name].answered
	if resource.IsGlob(name) {
		return !m.absent[name] && !(answered && m.goBy(name))
	}
	return !answered && m.unknown(name)
}

func (m *model) want(s *sub) {
	for n := range s.names {
		if m.wants[n] == nil {
			m.wants[n] = &modelWant{}
			m.returned[n] = m.told[n] != "" || m.brought[n]
		}
	}
	if s.wild && m.wild == nil {
		m.wild = &modelWant{}
	}
}

func (m *model) covered(name string, also []string) bool {
	return m.wild != nil || m.wants[name] != nil || m.wants[resource.GlobOf(name)] != nil || slices.ContainsFunc(also, func(a string) bool { return m.wants[a] != nil })
}

// expire drops what none of subs wants, and what then nobody can see.
func (m *model) expire(subs []*sub) {
	for n := range m.wants {
		if !slices.ContainsFunc(subs, func(s *sub) bool { return s.names[n] }) {
			delete(m.wants, n)
		}
	}
	if !slices.ContainsFunc(subs, func(s *sub) bool { return s.wild }) {
		m.wild = nil
	}
	for n, r := range m.live {
		if !m.covered(n, slices.Concat(r.Aliases, m.former[n])) {
			m.brought[n] = m.brought[n] || m.toldWild
			delete(m.live, n)
			delete(m.held, n)
			delete(m.former, n)
			m.version = ""
		}
	}
	for n := range m.absent {
		if !m.covered(n, m.former[n]) {
			delete(m.absent, n)
			delete(m.former, n)
		}
	}
}

func (m *model) set(name string, r *resource.Resource, version string) {
	var keep []string
	was := m.former[name]
	if old := m.live[name]; old != nil {
		was = slices.Concat(was, old.Aliases)
	}
	for _, a := range was {
		if m.wants[a] != nil && !slices.Contains(keep, a) && (r == nil || !slices.Contains(r.Aliases, a)) {
			keep = append(keep, a)
		}
	}
	m.former[name] = keep
	delete(m.live, name)
	delete(m.held, name)
	delete(m.absent, name)
	if r == nil {
		m.absent[name] = true
	} else {
		m.live[name], m.held[name] = r, version
	}
}

// apply returns how many changes u makes.
func (m *model) apply(u Update) (changes int) {
	before, exact := m.digest(m.live), u.Full && len(u.Keep) == 0
	set := func(name string, r *resource.Resource, version string) {
		was := m.live[name] != nil
		m.set(name, r, version)
		changes++
		if g := resource.GlobOf(name); was && m.wants[g] != nil && !m.goBy(g) { // G7
			m.set(g, nil, "")
			changes++
		}
	}
	for _, r := range u.Resources {
		old := m.live[r.Key]
		switch {
		case !m.covered(r.Key, r.Aliases): // C10
			exact = false
		case r.Body == nil && len(r.Aliases) == 0:
			if r.TTL == 0 && !m.absent[r.Key] { // C11
				set(r.Key, nil, "")
			}
		case old != nil && old.SameContent(r): // D15
			m.held[r.Key] = r.Version
		default:
			set(r.Key, r, r.Version)
		}
	}
	for _, n := range resource.CanonicalNames(u.Removed) {
		if m.live[n] != nil || m.wants[n] != nil && m.unknown(n) {
			set(n, nil, "")
		} else if w := m.wants[n]; w != nil && resource.IsGlob(n) {
			w.answered = true
		}
	}
	if u.Full {
		for n := range m.live {
			said := slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return r.Key == n })
			if !said && !slices.Contains(u.Keep, n) {
				set(n, nil, "")
			}
		}
	}
	if m.digest(m.live) != before { // D7
		if !exact || u.Version == m.version {
			m.version = ""
		} else {
			m.version = u.Version
		}
	}
	if !u.Partial {
		for _, w := range m.wants {
			w.answered = w.answered || w.asked
		}
		if m.wild != nil {
			m.wild.answered = m.wild.answered || m.wild.asked
		}
	}
	return changes
}

func (m *model) digest(rs map[string]*resource.Resource) (d resource.Digest) {
	for _, r := range rs {
		d = d.Add(r.Member())
	}
	return d
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
