package fleet

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"xdsrelay/bench/content"
	"xdsrelay/bench/fleet/h2"
)

// view is what all clients of a key know together: what they were told, and
// what that does to whom.
type view struct {
	fleet *Fleet // fixed
	key   int    // fixed

	// The last step of each type: most clients take the same one.
	recent [kinds]atomic.Pointer[taken]

	mu sync.Mutex
	// Guarded by mu.
	bodies   memo[uint64, *body]
	items    memo[itemKey, item]
	steps    memo[stepKey, *step]
	states   memo[uint64, *state]
	sets     memo[uint64, *set]
	versions map[itemVersion][]versionOf
}

// taken is a step that was taken.
type taken struct {
	key  stepKey
	step *step
}

// take reads a response of type k and finds out what it does to a client.
func (v *view) take(k kind, e *envelope, m *h2.Message, from stepKey) (*body, *step) {
	// What many clients are doing goes without the lock: the others would wait
	// for the one that reads something new.
	if r := v.recent[k].Load(); r != nil && r.key.body.hash == e.hash {
		if from.body = r.key.body; from == r.key {
			return from.body, r.step
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	from.body = v.bodyLocked(k, e, m)
	s := v.stepLocked(from)
	if r := v.recent[k].Load(); r == nil || r.key != from {
		v.recent[k].Store(&taken{from, s})
	}
	return from.body, s
}

// itemKey identifies a resource by its bytes.
type itemKey struct {
	kind kind
	hash uint64
}

// remembered is how many resources all views remember together, in each of
// their generations.
const remembered = 1 << 18

func newView(f *Fleet, key int) *view {
	v := &view{fleet: f, key: key, versions: make(map[itemVersion][]versionOf)}
	// A full state of each type has to fit with room to spare, or clients that
	// sync at different times read everything again and again.
	whole := 0
	for k := range kinds {
		whole += f.cfg.count(k)
	}
	budget := max(remembered/f.cfg.Content.Keys, 2*whole, 256)
	v.bodies.budget, v.items.budget, v.steps.budget = budget, budget, budget
	v.states.budget, v.sets.budget = budget, budget
	return v
}

// name is the name of resource i.
func (v *view) name(k kind, i int) string {
	return content.Name(k.info().url, v.fleet.cfg.Content.Source(v.key), i)
}

// share returns the one set that is equal to s. v.mu is held.
func (v *view) share(s *set) *set {
	if s == nil || s.all {
		return s
	}
	if one, ok := v.sets.get(s.hash); ok {
		return one
	}
	v.sets.put(s.hash, s, 1+len(s.words)/8)
	return s
}

// stateLocked returns the one state with a sum, and makes it where there is
// none. v.mu is held.
func (v *view) stateLocked(b *body, from *state, sum, newest uint64, has *set, all func() []held) *state {
	version := ""
	if !v.fleet.cfg.Delta {
		version = b.version
	}
	id := mix(mix(mix(uint64(b.kind), sum), xxhash.Sum64String(version)), newest)
	if has != nil {
		id = mix(id, has.hash)
	}
	if s, ok := v.states.get(id); ok {
		return s
	}
	s := &state{has: has, newest: newest, version: version, answered: true, sum: sum}
	s.held = all()
	v.states.put(id, s, 8+len(s.held))
	return s
}

// namesField is the names in a set as a repeated field with a number, 3 or 4, of
// a request.
func (v *view) namesField(k kind, s *set, num int) []byte {
	if s == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	cached := &s.names[num-3]
	if *cached == nil {
		s.each(func(i int) { *cached = appendString(*cached, num, v.name(k, i)) })
	}
	return *cached
}

// initialVersions is what a client that comes back says it holds.
func (v *view) initialVersions(k kind, s *state) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.initial == nil {
		var entry []byte
		s.has.each(func(i int) {
			entry = appendString(entry[:0], 1, v.name(k, i))
			entry = appendString(entry, 2, s.held[i].version)
			s.initial = appendBytes(s.initial, reqInitial, entry)
		})
	}
	return s.initial
}
