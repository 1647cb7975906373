package events

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

// CombineTime is how long facts about keys are collected for one event.
const CombineTime = 2 * time.Second

// mostGroups bounds the combined events that are collected at a time. Further ones are recorded
// without being combined.
const mostGroups = 64

// Recorder records the events of a node. All methods are safe for concurrent use; the zero value is
// not useful, see [New].
type Recorder struct {
	// Fixed after construction.
	run  string
	sink func(Event)

	mu sync.Mutex
	// Guarded by mu.
	node   string
	ring   Ring
	copies Copies
	groups []*group
	timer  *time.Timer // nil while nothing is collected
	closed bool
}

// group collects facts about several keys.
type group struct {
	of   string // what they have in common
	fact *fact
	due  time.Time
	seen map[uint64]struct{} // hashes of keys: there may be many
	keys []string            // the first ones
	sums []int               // of spec.Sums
}

// New makes a recorder. sink gets each recorded event; nil for nobody. It must not block.
func New(sink func(Event)) *Recorder {
	return &Recorder{run: rand.Text()[:12], sink: sink}
}

// SetNode names the node that records. A node learns its name while it is built.
func (r *Recorder) SetNode(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = name
}

// SetSink replaces the sink.
func (r *Recorder) SetSink(sink func(Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = sink
}

// After returns what a reader lacks, of this node and of the copies of others; see [Ring.After].
// This node is the first.
func (r *Recorder) After(read Positions, since time.Time) []Part {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.ring.After(read[r.run], since)
	p.Node, p.Run = r.node, r.run
	return append([]Part{p}, r.copies.After(read, since)...)
}

// Copy keeps events of other nodes, which would be lost with them.
func (r *Recorder) Copy(parts []Part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copies.Add(r.run, parts...)
}

// Copied says how far the copies go.
func (r *Recorder) Copied() Positions {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copies.Positions()
}

// Close records what is being collected, and ends the recorder's timer. Later facts are recorded
// without being combined.
func (r *Recorder) Close() {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	done := r.flushLocked(time.Time{})
	sink := r.sink
	r.mu.Unlock()
	pass(sink, done)
}

func pass(sink func(Event), all []Event) {
	if sink == nil {
		return
	}
	for _, e := range all {
		sink(e)
	}
}

// note records a fact, or collects it.
func (r *Recorder) note(f *fact) {
	r.mu.Lock()
	var done []Event
	if f.spec.Combining == Single || !r.collectLocked(f) {
		done = r.addLocked(nil, f, nil, 1)
	}
	sink := r.sink
	r.mu.Unlock()
	pass(sink, done)
}

func (r *Recorder) addLocked(done []Event, f *fact, keys []string, n int) []Event {
	if e, recorded := r.ring.Add(f.event(r.node, keys, n)); recorded {
		return append(done, e)
	}
	return done
}

// collectLocked adds a fact to those of the same group, and reports whether it did.
func (r *Recorder) collectLocked(f *fact) bool {
	if r.closed {
		return false
	}
	of := commonOf(f)
	i := slices.IndexFunc(r.groups, func(g *group) bool { return g.of == of })
	if i < 0 {
		if len(r.groups) >= mostGroups {
			return false
		}
		i = len(r.groups)
		r.groups = append(r.groups, &group{of: of, fact: f, due: time.Now().Add(CombineTime), seen: make(map[uint64]struct{}), sums: make([]int, len(f.spec.Sums))})
		if r.timer == nil {
			r.timer = time.AfterFunc(CombineTime, r.flush)
		}
	}
	g := r.groups[i]
	g.add(f)
	return true
}

// commonOf is what facts of one group have in common.
func commonOf(f *fact) string {
	parts := []string{string(f.spec.Kind)}
	for _, name := range f.spec.Same {
		parts = append(parts, f.values[name])
	}
	return strings.Join(parts, "\x00")
}

func (g *group) add(f *fact) {
	if key := f.values[f.spec.Name]; key != "" {
		hash := xxhash.Sum64String(key)
		if _, again := g.seen[hash]; !again {
			g.seen[hash] = struct{}{}
			if len(g.keys) < MostKeys {
				g.keys = append(g.keys, key)
			}
		}
	}
	for i, name := range f.spec.Sums {
		n, _ := strconv.Atoi(f.values[name])
		g.sums[i] += n
	}
}

// flush records the groups that are due.
func (r *Recorder) flush() {
	r.mu.Lock()
	r.timer = nil
	var done []Event
	if !r.closed {
		done = r.flushLocked(time.Now())
	}
	sink := r.sink
	r.mu.Unlock()
	pass(sink, done)
}

// flushLocked records the groups that are due at now; all with the zero time. It sets the timer for
// the next one.
func (r *Recorder) flushLocked(now time.Time) (done []Event) {
	kept := r.groups[:0]
	for _, g := range r.groups {
		if !now.IsZero() && g.due.After(now) {
			kept = append(kept, g)
			continue
		}
		for i, name := range g.fact.spec.Sums {
			g.fact.values[name] = strconv.Itoa(g.sums[i])
		}
		done = r.addLocked(done, g.fact, g.keys, max(len(g.seen), 1))
	}
	clear(r.groups[len(kept):])
	if r.groups = kept; len(kept) > 0 {
		r.timer = time.AfterFunc(time.Until(kept[0].due), r.flush)
	}
	return done
}
