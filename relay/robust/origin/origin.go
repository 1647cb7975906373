// Package origin is the control plane of the robustness suites: it records all its states
// and all that it says, and stamps what it serves, so that a recording tells one content
// from another.
package origin

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// Origin is a control plane that records all its states and all that it says. Its
// streams may speak either variant. It can go back to an earlier state, as one that
// was restored from a backup does.
type Origin struct {
	state *xdstest.StateOrigin // fixed
	to    *record.Recorder     // fixed
	size  int                  // fixed; names of each type and key
	// keeps says that what is asked for by name never goes: without delta an origin
	// could not tell it (B32). Fixed.
	keeps bool

	mu      sync.Mutex
	serial  int            // guarded by mu; of the newest content
	content map[string]Set // guarded by mu; by key

	// Apart from mu, which is held while the state changes.
	streamsMu sync.Mutex
	streams   map[int]*stream // guarded by streamsMu; by number
}

// stream is an open stream that has asked for something.
type stream struct {
	key        string
	unanswered map[string]record.Event // responses without an ACK or a NACK, by nonce
}

// Set is what a key has: serials by type URL and name.
type Set map[string]map[string]int

func (s Set) clone() Set {
	out := make(Set, len(Types))
	for _, typeURL := range Types { // also of a key that the plan no longer has, while it is shrunk
		if out[typeURL] = maps.Clone(s[typeURL]); out[typeURL] == nil {
			out[typeURL] = make(map[string]int)
		}
	}
	return out
}

// New makes an origin of a state origin, with all names for each key. With keeps, what is
// asked for by name never goes.
func New(state *xdstest.StateOrigin, to *record.Recorder, keys []string, size int, keeps bool) *Origin {
	o := &Origin{state: state, to: to, size: size, keeps: keeps, content: make(map[string]Set), streams: make(map[int]*stream)}
	o.state.Watch(o.watch)
	for _, key := range keys {
		full := make(Set)
		for _, typeURL := range Types {
			full[typeURL] = make(map[string]int)
			for _, name := range Universe(typeURL, size) {
				full[typeURL][name] = o.next()
			}
		}
		o.become(key, full)
	}
	return o
}

func (o *Origin) next() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serial++
	return o.serial
}

// Addr is where it listens, also while it is stopped.
func (o *Origin) Addr() string { return o.state.Addr() }

// Stop cuts all streams; nothing listens until Start.
func (o *Origin) Stop() { o.state.Stop() }

// Start makes it listen again.
func (o *Origin) Start() error { return o.state.Start() }

// Change makes a random change to a key at one stroke: some resources get new
// content, some go or come.
func (o *Origin) Change(key string, random *rand.Rand) {
	o.mu.Lock()
	next := o.content[key].clone()
	for range 1 + random.IntN(4) {
		typeURL := Types[random.IntN(len(Types))]
		names := Universe(typeURL, o.size)
		name := names[random.IntN(len(names))]
		if random.IntN(4) == 0 && next[typeURL][name] != 0 {
			delete(next[typeURL], name)
			continue
		}
		o.serial++
		next[typeURL][name] = o.serial
	}
	o.mu.Unlock()
	o.become(key, next)
}

// Serial is that of the newest content.
func (o *Origin) Serial() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.serial
}

// Touch gives one resource of each type of a key new content.
func (o *Origin) Touch(key string) {
	o.mu.Lock()
	next := o.content[key].clone()
	for _, typeURL := range Types {
		o.serial++
		next[typeURL][Universe(typeURL, 1)[0]] = o.serial
	}
	o.mu.Unlock()
	o.become(key, next)
}

// Snapshot is what it has now, by key.
func (o *Origin) Snapshot() map[string]Set {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.content) // sets are replaced, never changed
}

// Restore goes back to what it had, or to nothing for keys that are not there.
func (o *Origin) Restore(to map[string]Set) {
	for key := range o.Snapshot() {
		o.become(key, to[key])
	}
}

// Lose takes most resources of a type from a key, or all, as a control plane does that has
// lost some of its inputs.
func (o *Origin) Lose(key, typeURL string, random *rand.Rand) {
	next := o.Snapshot()[key].clone()
	keep := ""
	if random.IntN(2) == 0 {
		keep = Universe(typeURL, o.size)[random.IntN(o.size)]
	}
	for name := range next[typeURL] {
		if name != keep {
			delete(next[typeURL], name)
		}
	}
	o.become(key, next)
}

// Replace gives new content to resources of a key, as one change: those that are asked for. It returns the
// serials.
func (o *Origin) Replace(key string, which func(typeURL, name string, serial int) bool) (serials []int) {
	o.mu.Lock()
	next := o.content[key].clone()
	for _, typeURL := range Types {
		for _, name := range slices.Sorted(maps.Keys(next[typeURL])) {
			if which(typeURL, name, next[typeURL][name]) {
				o.serial++
				next[typeURL][name] = o.serial
				serials = append(serials, o.serial)
			}
		}
	}
	o.mu.Unlock()
	if len(serials) > 0 {
		o.become(key, next)
	}
	return serials
}

// Return gives back what keys had before and have not now; what has come since, or was
// replaced, stays.
func (o *Origin) Return(before map[string]Set) {
	for key, now := range o.Snapshot() {
		next := now.clone()
		for typeURL, names := range before[key] {
			if next[typeURL] == nil {
				next[typeURL] = make(map[string]int)
			}
			for name, serial := range names {
				if next[typeURL][name] == 0 {
					next[typeURL][name] = serial
				}
			}
		}
		o.become(key, next)
	}
}

// become replaces what a key has, at one stroke, and records it. Versions say what
// the content is: what was before has the version that it had then.
func (o *Origin) become(key string, next Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.content[key]
	next = o.kept(now, next)
	o.content[key] = next
	o.state.Update(key, func(c *xdstest.Change) {
		for _, typeURL := range Types {
			for _, name := range slices.Sorted(maps.Keys(now[typeURL])) {
				if next[typeURL][name] == 0 {
					o.note(key, typeURL, name, 0)
					c.Remove(typeURL, name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(next[typeURL])) {
				if serial := next[typeURL][name]; serial != now[typeURL][name] {
					o.note(key, typeURL, name, serial)
					c.SetEnvelope(typeURL, &discoveryv3.Resource{
						Name: name, Version: "s" + strconv.Itoa(serial), Resource: xdstest.Any(stamped(typeURL, name, key, serial)),
					})
				}
			}
		}
	})
}

// kept is a state with what may not go.
func (o *Origin) kept(now, next Set) Set {
	out := next.clone()
	for typeURL, names := range now {
		if out[typeURL] == nil {
			out[typeURL] = make(map[string]int)
		}
		for name, serial := range names {
			if o.keeps && !xdstest.FullState(typeURL) && out[typeURL][name] == 0 {
				out[typeURL][name] = serial
			}
		}
	}
	return out
}

func (o *Origin) note(key, typeURL, name string, serial int) {
	o.to.Add(record.Event{
		Kind: record.OriginState, Key: key, Type: typeURL, Resources: []record.Resource{{Name: name, Key: key, Serial: serial}},
	})
}

// watch records what streams do.
func (o *Origin) watch(e xdstest.Event) {
	switch {
	case e.Request != nil:
		o.request(e)
	case e.Response != nil:
		f, err := xdstest.FrameOf(e.Response)
		if err != nil {
			return // it builds its responses itself: there are no others
		}
		sent := record.Event{
			Kind: record.OriginSent, Stream: e.Stream, Type: f.TypeURL, Delta: f.Delta, Version: f.Version,
			Resources: Resources(f), Removed: f.Removed, Bytes: proto.Size(e.Response),
		}
		o.on(e.Stream, func(s *stream) {
			sent.Key = s.key
			s.unanswered[f.Nonce] = sent
		})
		o.to.Add(sent)
	case e.Ended:
		if key, open := o.end(e.Stream); open {
			o.to.Add(record.Event{Kind: record.OriginEnd, Stream: e.Stream, Key: key})
		}
	}
}

// request notes the key of a stream, which is in the first request, and what is accepted.
func (o *Origin) request(e xdstest.Event) {
	answered, acked := record.Event{}, false
	if o.on(e.Stream, func(s *stream) {
		answered, acked = s.unanswered[e.Request.Nonce]
		delete(s.unanswered, e.Request.Nonce)
	}) {
		if acked && e.Request.IsAck() {
			o.to.Add(record.Event{Kind: record.OriginAcked, Stream: e.Stream, Key: answered.Key, Type: answered.Type, Resources: answered.Resources})
		}
		return
	}
	key := e.Request.Node.GetCluster()
	o.open(e.Stream, key)
	o.to.Add(record.Event{Kind: record.OriginOpen, Stream: e.Stream, Key: key, Why: e.Request.Node.GetId()})
}

// on does something with a stream that has asked for something; false if there is none.
func (o *Origin) on(number int, do func(*stream)) bool {
	o.streamsMu.Lock()
	defer o.streamsMu.Unlock()
	s := o.streams[number]
	if s != nil {
		do(s)
	}
	return s != nil
}

func (o *Origin) open(number int, key string) {
	o.streamsMu.Lock()
	defer o.streamsMu.Unlock()
	o.streams[number] = &stream{key: key, unanswered: make(map[string]record.Event)}
}

// end forgets a stream, and returns its key; false if it has asked for nothing.
func (o *Origin) end(number int) (key string, open bool) {
	open = o.on(number, func(s *stream) { key = s.key })
	o.streamsMu.Lock()
	defer o.streamsMu.Unlock()
	delete(o.streams, number)
	return key, open
}
