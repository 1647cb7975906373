package cache

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/resource"
)

// model is a table in plain maps: everything is computed when it is needed, and nothing is
// maintained incrementally.
type model struct {
	layout
	shown  map[string]*resource.Resource // by name, from any stream
	copies []map[string]modelCopy        // by stream
	absent map[string]bool               // known not to exist
	former map[string][]string           // former aliases, while there was interest in them

	ttl      map[string]time.Duration // of the shown resources; 0: withdrawn
	beats    map[string]int           // counts the updates of their TTLs
	errors   map[string]string        // sent instead of a resource
	denied   map[string]bool          // not shown, but not removed, either
	deniedBy map[string]int           // the stream that denied it
	refused  map[string]bool          // names of whose errors clients may still know
	inSet    map[string]bool          // those of errors that left a resource in place
	notes    map[string]bool          // names whose TTLs the last update renewed
	said     map[string]bool          // names of which it sent something besides resources
	renewed  []string                 // unchanged names that it showed once more

	// versions are those of the last full state of each stream, while that is its whole content.
	versions []string
	heard    []bool // streams that have sent something
	differs  []bool // streams whose control planes track what they have sent
	// percent is the share that one answer may remove, 0 for all; guarded are the names of each
	// stream whose removal exceeded it (K16).
	percent int
	guarded []map[string]bool

	wants     map[string]*modelInterest // by name; including lingering ones
	wild      *modelInterest            // nil: no interest
	requested []modelRequests           // the demand that each control plane was sent
	met       map[string]bool           // was a member of the wildcard set, or denied there
}

type modelCopy struct {
	res     *resource.Resource
	version string // as the control plane gave it
}

type modelInterest struct{ asked, answered bool }

type modelRequests struct {
	names    map[string]string // in the spelling of the request
	wild     bool
	returned map[string]bool // unsubscribed and asked for again since the last request
	brought  map[string]bool // by a wildcard that was left since the last request, or as ghost subscriptions that are asked for again
	ghosts   map[string]bool // unsubscribed, or arrived without interest, or with an interest too short to be sent
	last     map[string]bool // of brought: need no other unsubscribe after the next one
}

func newModelRequests() modelRequests {
	return modelRequests{
		names: make(map[string]string), returned: make(map[string]bool),
		brought: make(map[string]bool), ghosts: make(map[string]bool), last: make(map[string]bool),
	}
}

// drop makes a ghost subscription one of those that were brought.
func (m *modelRequests) drop(n string) {
	if m.ghosts[n] && m.names[n] == "" && !m.brought[n] {
		m.last[n] = !m.wild
	}
	m.brought[n] = m.brought[n] || m.ghosts[n]
	delete(m.ghosts, n)
}

// layout is the distribution of names over streams.
type layout struct {
	legs  []OriginStream
	route func(name string) int
}

func (l layout) sameOrigin(a, b int) bool {
	return a != Nobody && b != Nobody && l.legs[a].Origin == l.legs[b].Origin
}

func newModel(l layout) *model {
	m := &model{
		layout: l, shown: make(map[string]*resource.Resource), versions: make([]string, len(l.legs)), heard: make([]bool, len(l.legs)), differs: make([]bool, len(l.legs)),
		absent: make(map[string]bool), former: make(map[string][]string), wants: make(map[string]*modelInterest), met: make(map[string]bool),
		ttl: make(map[string]time.Duration), beats: make(map[string]int),
		errors: make(map[string]string), denied: make(map[string]bool), deniedBy: make(map[string]int), inSet: make(map[string]bool), refused: make(map[string]bool),
	}
	for range l.legs {
		m.copies = append(m.copies, make(map[string]modelCopy))
		m.guarded = append(m.guarded, make(map[string]bool))
		m.requested = append(m.requested, newModelRequests())
	}
	return m
}

// sub is a client's interest.
type sub struct {
	wild  bool
	names map[string]bool
}

func (s *sub) String() string {
	return fmt.Sprint(s.wild, " ", strings.Join(sortedKeys(s.names), ","))
}

// namesIt reports whether s asks for r by name, alias or glob.
func (s *sub) namesIt(r *resource.Resource) bool {
	return s.names[r.Key] || s.names[resource.GlobOf(r.Key)] || slices.ContainsFunc(r.Aliases, func(a string) bool { return s.names[a] })
}

// member reports whether name is in the wildcard set (D11).
func (m *model) member(name string) bool {
	wild := m.route(everything)
	return wild != Nobody && m.copies[wild][name].res != nil
}

func (m *model) covers(s *sub, r *resource.Resource) bool {
	return s.wild && m.member(r.Key) || s.namesIt(r)
}

// view is all that s sees.
func (m *model) view(s *sub) map[string]*resource.Resource {
	seen := make(map[string]*resource.Resource)
	for n, r := range m.shown {
		if m.covers(s, r) {
			seen[n] = r
		}
	}
	return seen
}

// goBy reports whether a resource has the name.
func (m *model) goBy(name string) bool {
	for _, r := range m.shown {
		if r.Key == name || resource.GlobOf(r.Key) == name || slices.Contains(r.Aliases, name) {
			return true
		}
	}
	return false
}

func (m *model) unknown(name string) bool {
	return !m.absent[name] && !m.denied[name] && !m.goBy(name)
}

// silent reports whether the control plane has sent nothing at all of name.
func (m *model) silent(name string) bool { return m.unknown(name) && m.errors[name] == "" }

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

// gone is missing, plus what a former client of s may know by an alias.
func (m *model) gone(s *sub) map[string]bool {
	out := m.missing(s)
	for n := range m.absent {
		if slices.ContainsFunc(m.former[n], func(a string) bool { return s.names[a] }) {
			out[n] = true
		}
	}
	return out
}

// known reports whether the control planes have answered for all of s.
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

// open reports whether nothing is known of a name with interest, or, of a glob, whether it may be
// incomplete (K13).
func (m *model) open(name string) bool {
	answered := m.wants[name].answered
	if m.errors[name] != "" {
		return false // C16
	}
	if resource.IsGlob(name) {
		return !m.absent[name] && !(answered && m.goBy(name))
	}
	return !answered && m.unknown(name)
}

func (m *model) want(s *sub) {
	for n := range s.names {
		if m.wants[n] != nil {
			continue
		}
		stream := m.route(n)
		if stream != m.route(everything) && m.shown[n] == nil && !m.wanted(Nobody, append(m.former[n], resource.GlobOf(n))...) {
			delete(m.absent, n) // from the wildcard set only
			delete(m.former, n)
		}
		m.wants[n] = &modelInterest{answered: stream == Nobody}
		switch {
		case stream != Nobody:
			m.requested[stream].drop(n)
			m.requested[stream].returned[n] = m.requested[stream].names[n] != "" || m.requested[stream].brought[n]
		case m.shown[n] == nil:
			m.absent[n] = true // G3
		}
	}
	if s.wild && m.wild == nil {
		m.wild = &modelInterest{answered: m.route(everything) == Nobody}
		if stream := m.route(everything); stream != Nobody {
			for n := range m.requested[stream].ghosts {
				m.requested[stream].drop(n)
			}
		}
	}
}

// wanted reports whether there is interest in one of names, on the given stream if that is not
// Nobody.
func (m *model) wanted(stream int, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return m.wants[n] != nil && (stream == Nobody || m.route(n) == stream)
	})
}

func (m *model) covered(stream int, name string, also []string) bool {
	return m.wild != nil && m.route(everything) == stream || m.wanted(stream, append([]string{name, resource.GlobOf(name)}, also...)...)
}

// expire drops the demand without subs, and what no client can see then.
func (m *model) expire(subs []*sub) {
	over := make(map[string]bool)
	for n := range m.wants {
		if !slices.ContainsFunc(subs, func(s *sub) bool { return s.names[n] }) {
			delete(m.wants, n)
			over[n] = true
		}
	}
	if !slices.ContainsFunc(subs, func(s *sub) bool { return s.wild }) {
		m.wild = nil
	}
	for n, r := range m.shown {
		also := slices.Concat(r.Aliases, m.former[n])
		for stream := range m.legs {
			if m.copies[stream][n].res != nil && !m.covered(stream, n, also) {
				m.versions[stream] = ""
				m.releaseCopy(stream, n, also)
				sent := &m.requested[stream]
				switch {
				case m.copies[stream][n].res != nil:
				case stream == m.route(everything) && sent.wild:
					sent.brought[n] = true
				case m.differs[stream] && sent.names[n] == "" && !sent.brought[n]:
					sent.ghosts[n] = true // it arrived before the control plane was sent the interest
				}
			}
		}
	}
	for n := range m.absent {
		names := append([]string{n, resource.GlobOf(n)}, m.former[n]...)
		vouched := m.wild != nil && (m.route(n) == m.route(everything) || !slices.ContainsFunc(names, func(n string) bool { return over[n] }))
		if !vouched && !m.wanted(Nobody, names...) {
			delete(m.absent, n)
			delete(m.former, n)
		}
	}
	for n := range m.denied {
		if !m.covered(0, n, m.former[n]) {
			delete(m.denied, n)
			delete(m.former, n)
		}
	}
	for n := range m.errors {
		if !m.covered(0, n, nil) {
			delete(m.errors, n)
		}
	}
}

// releaseCopy releases a stream's copy without interest.
func (m *model) releaseCopy(stream int, n string, also []string) {
	if m.other(stream, n).res != nil {
		m.drop(stream, n)
		return
	}
	r := m.copies[stream][n].res
	delete(m.copies[stream], n)
	delete(m.guarded[stream], n)
	for _, name := range append(append([]string{n}, also...), resource.GlobOf(n)) {
		if fallback := m.route(name); m.wants[name] != nil && fallback != Nobody {
			m.copies[fallback][n] = modelCopy{res: r}
			m.versions[fallback] = ""
			return
		}
	}
	delete(m.shown, n)
	delete(m.ttl, n)
	if m.wanted(Nobody, m.former[n]...) {
		m.absent[n] = true // it was absent by an alias
	} else {
		delete(m.former, n)
	}
}

// holds is the digest of a stream's content.
func (m *model) holds(stream int) (d resource.Digest) {
	for _, c := range m.copies[stream] {
		d = d.Add(c.res.Member())
	}
	return d
}

func (m *model) digest(rs map[string]*resource.Resource) (d resource.Digest) {
	for _, r := range rs {
		d = d.Add(r.Member())
	}
	return d
}

// legsOf are the streams that s has interests on; a single one serves all.
func (m *model) legsOf(s *sub) (streams []int) {
	names := sortedKeys(s.names)
	if s.wild {
		names = append(names, everything)
	}
	for i := range m.legs {
		if len(m.legs) == 1 || slices.ContainsFunc(names, func(n string) bool { return m.route(n) == i }) {
			streams = append(streams, i)
		}
	}
	return streams
}

// version is the control plane's version of exactly what s sees: if one stream serves all its
// interests, and s sees the whole content of that.
func (m *model) version(s *sub, view map[string]*resource.Resource) string {
	streams := m.legsOf(s)
	if len(streams) != 1 || len(view) != len(m.copies[streams[0]]) || m.digest(view) != m.holds(streams[0]) {
		return ""
	}
	return m.versions[streams[0]]
}

// source names the control planes of what s sees (K7).
func (m *model) source(s *sub) string {
	var all []string
	for _, stream := range m.legsOf(s) {
		if from := m.legs[stream].Origin; m.heard[stream] && from != "" && !slices.Contains(all, from) {
			all = append(all, from)
		}
	}
	return strings.Join(all, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
