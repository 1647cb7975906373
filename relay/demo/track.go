package demo

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// event is one changed resource on its way to the clients that want it.
type event struct {
	ref
	keys    []string
	file    string
	wrote   time.Time // when the file had its new content
	now     *facts    // nil: the resource is gone
	appears bool      // it is new

	waiting map[*client]struct{}
	reached []arrival
	skipped int // clients that got something newer instead
	wanted  int // clients in all, and slowWanted those that are slow
	told    bool

	slowWanted int
}

// arrival is a change that came to a client.
type arrival struct {
	client *client
	// fromFile is the time since the file was written, and fromRelay the time
	// since the relay stored it, negative if unknown.
	fromFile, fromRelay time.Duration
}

// settled reports whether the change has come to everybody, or was overtaken.
func (e *event) settled() bool { return len(e.waiting) == 0 }

// keptEvents is how many changes are remembered.
const keptEvents = 100

// tracker follows changes to the clients. It belongs to the loop.
type tracker struct {
	files *directory
	fleet *fleet
	node  *node
	known map[likeness]map[ref]*facts // what clients had to hold, when last looked at
	last  int                         // the files' revision then

	wroteAt  time.Time // when the demo changed a file that was not compared yet
	problems []string  // to be shown
	events   []*event  // the newest last
	done     int       // events that are not remembered any more
	skipped  int
	origin   struct{ changes, bytes int }
	behind   map[string]int // clients of a key that are not in step

	// When all clients that are not slow had everything; zero before.
	syncedAt time.Time
}

func newTracker(files *directory, fleet *fleet, node *node) *tracker {
	t := &tracker{files: files, fleet: fleet, node: node, behind: make(map[string]int)}
	t.known, t.last = t.expectations(), files.revision
	for _, key := range fleet.keys {
		for _, f := range files.content(key) {
			t.origin.bytes += f.size
		}
	}
	return t
}

// wrote notes that the demo has just changed a file.
func (t *tracker) wrote(at time.Time, err error) {
	t.wroteAt = at
	if err != nil {
		t.problems = append(t.problems, err.Error())
	}
}

// update collects what has happened since the last time.
func (t *tracker) update() {
	if t.files.revision != t.last {
		t.last = t.files.revision
		t.compare()
	}
	for _, c := range t.fleet.clients {
		for _, r := range c.collect() {
			t.arrived(c, r)
		}
	}
	t.problems = append(t.problems, t.node.log.take()...)
	t.countBehind()
	if time.Since(t.node.scraped) > time.Second {
		t.node.scrape()
		t.node.forgetBefore(time.Now().Add(-time.Minute))
	}
	for len(t.events) > keptEvents {
		t.done++
		t.events = t.events[1:]
	}
}

func (t *tracker) expectations() map[likeness]map[ref]*facts {
	e := newExpectation(t.files)
	for _, c := range t.fleet.clients {
		e.of(c)
	}
	return e.known
}

// compare finds out what a change of the files changes for whom.
func (t *tracker) compare() {
	before := t.known
	t.known = t.expectations()
	found := make(map[ref]map[sum]*event)
	for l, now := range t.known {
		old := before[l]
		for r, f := range now {
			if o := old[r]; o == nil || o.sum != f.sum {
				t.noteChange(found, l, r, f, o == nil)
			}
		}
		for r := range old {
			if now[r] == nil {
				t.noteChange(found, l, r, nil, false)
			}
		}
	}
	var fresh []*event
	for _, of := range found {
		for e := range maps.Values(of) {
			e.wanted = len(e.waiting)
			for c := range e.waiting {
				if c.slow > 0 {
					e.slowWanted++
				}
			}
			slices.Sort(e.keys)
			t.origin.changes++
			if e.now != nil {
				t.origin.bytes += e.now.size * len(e.keys)
			}
			fresh = append(fresh, e)
		}
	}
	slices.SortFunc(fresh, func(a, b *event) int { return cmp.Compare(a.String(), b.String()) })
	t.events = append(t.events, fresh...)
	for _, e := range fresh { // what came before we looked
		for c := range maps.Clone(e.waiting) {
			h, ok := c.holds()[e.ref]
			switch {
			case !ok && e.now == nil:
				t.arrived(c, receipt{e.ref, nil, time.Now()})
			case ok && e.now != nil && h.sum == e.now.sum:
				at := h.at
				if at.Before(e.wrote) {
					at = e.wrote // it never had anything else
				}
				t.arrived(c, receipt{e.ref, h.facts, at})
			}
		}
	}
	t.wroteAt = time.Time{}
}

// noteChange adds the clients of one likeness to the event of a change.
func (t *tracker) noteChange(found map[ref]map[sum]*event, l likeness, r ref, now *facts, appears bool) {
	var s sum
	if now != nil {
		s = now.sum
	}
	if found[r] == nil {
		found[r] = make(map[sum]*event)
	}
	e := found[r][s]
	if e == nil {
		e = &event{ref: r, now: now, appears: appears, waiting: make(map[*client]struct{})}
		e.file, e.wrote = t.files.newest(l.key, r)
		switch {
		case !t.wroteAt.IsZero():
			e.wrote = t.wroteAt
		case now == nil || time.Since(e.wrote) > 4*tick:
			e.wrote = time.Now() // removed by hand, or moved here from elsewhere
		}
		found[r][s] = e
	}
	if !slices.Contains(e.keys, l.key) {
		e.keys = append(e.keys, l.key)
	}
	for _, c := range t.fleet.clients {
		if (likeness{c.key, c.service, c.kind}) == l {
			e.waiting[c] = struct{}{}
		}
	}
}

// arrived notes that a client received something.
func (t *tracker) arrived(c *client, r receipt) {
	for i, e := range slices.Backward(t.events) {
		if _, waits := e.waiting[c]; !waits || e.ref != r.ref || r.at.Before(e.wrote) {
			continue
		}
		if (e.now == nil) != (r.facts == nil) || e.now != nil && e.now.sum != r.sum {
			continue
		}
		delete(e.waiting, c)
		a := arrival{client: c, fromFile: r.at.Sub(e.wrote), fromRelay: -1}
		if stored, ok := t.node.storedSince(change{c.key, e.typeURL}, e.wrote); ok && !stored.After(r.at) {
			a.fromRelay = r.at.Sub(stored)
		}
		e.reached = append(e.reached, a)
		for _, older := range t.events[:i] { // overtaken on the way to this client
			if _, waits := older.waiting[c]; waits && older.ref == r.ref {
				delete(older.waiting, c)
				older.skipped++
				t.skipped++
			}
		}
		return
	}
}

// countBehind counts the clients that do not hold what they should now.
func (t *tracker) countBehind() {
	clear(t.behind)
	quick := 0
	for _, c := range t.fleet.clients {
		if !c.holdsAll(t.known[likeness{c.key, c.service, c.kind}]) {
			t.behind[c.key]++
			if c.slow == 0 {
				quick++
			}
		}
	}
	if t.syncedAt.IsZero() && quick == 0 {
		t.syncedAt = time.Now()
	}
}

// inStep reports whether all clients hold what they should.
func (t *tracker) inStep() bool { return len(t.behind) == 0 }

// holdsAll reports whether the client holds just what it should.
func (c *client) holdsAll(want map[ref]*facts) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) != len(want) {
		return false
	}
	for r, f := range want {
		if h, ok := c.held[r]; !ok || h.sum != f.sum {
			return false
		}
	}
	return true
}
