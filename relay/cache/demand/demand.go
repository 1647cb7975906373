package demand

import (
	"iter"
	"maps"
	"time"

	"xdsrelay/relay/cache/guarded"
)

// Demand has the interests of clients in the names of one type and in its wildcard, and what each
// upstream stream is asked for and has answered. S is a subscription. One goroutine changes a Demand
// at a time, while no other one reads it; see [Demand.Guard].
type Demand[S comparable] struct {
	guard guarded.Guard
	cfg   Config // fixed after construction

	interests map[string]*Interest[S] // only put and End add and remove
	fitted    map[string]*Interest[S] // the copy that Fit is making; nil while it makes none
	moved     uint64                  // how often a copy has replaced a map
	wild      Interest[S]
	seq       uint64 // numbers the interests
	lingering int    // names without subscribers that stay subscribed for the linger time
	shed      int    // names with interest that no stream asks for
	bytes     int64
	streams   []Stream[S]
}

// Config is what a Demand depends on.
type Config struct {
	// Route returns which stream serves a name, or [Nobody]. Wildcard is the stream of the wildcard.
	Route    func(name string) int
	Wildcard int
	// Bounds bounds, for each stream, the size of the names that it asks for, in bytes; 0 means no
	// bound.
	Bounds []int
	// EmptyGlob reports whether a name with interest is that of a glob without any resource: an
	// answer for other names is none for it.
	EmptyGlob func(name string) bool
}

// New makes a Demand without interests.
func New[S comparable](cfg Config) Demand[S] {
	d := Demand[S]{
		cfg: cfg, interests: make(map[string]*Interest[S]),
		wild: Interest[S]{stream: cfg.Wildcard}, streams: make([]Stream[S], len(cfg.Bounds)),
	}
	for i := range d.streams {
		d.streams[i] = Stream[S]{bound: cfg.Bounds[i], unanswered: make(map[string]*Interest[S]), changes: make(map[string]change)}
	}
	return d
}

// Guard makes each use of the demand call check, which panics if the goroutine must not use it: changes
// says that the demand may be changed, not only read. It does nothing without the race detector.
func (d *Demand[S]) Guard(check func(changes bool)) { d.guard.By(check) }

// Get returns the interest in a canonical name, nil if there is none.
func (d *Demand[S]) Get(name string) *Interest[S] {
	d.guard.Reading()
	return d.interests[name]
}

// Wildcard is the interest in the wildcard, which is there always.
func (d *Demand[S]) Wildcard() *Interest[S] {
	d.guard.Reading()
	return &d.wild
}

// Len is the number of names with interest.
func (d *Demand[S]) Len() int {
	d.guard.Reading()
	return len(d.interests)
}

// All iterates over the names with interest in no order.
func (d *Demand[S]) All() iter.Seq2[string, *Interest[S]] {
	d.guard.Reading()
	return maps.All(d.interests)
}

// Lingering is the number of names that linger.
func (d *Demand[S]) Lingering() int {
	d.guard.Reading()
	return d.lingering
}

// HasShed reports whether there is interest in a name that no stream asks for.
func (d *Demand[S]) HasShed() bool {
	d.guard.Reading()
	return d.shed > 0
}

// Bytes estimates the memory of the interests.
func (d *Demand[S]) Bytes() int64 {
	d.guard.Reading()
	return d.bytes
}

// Begin adds an interest in a name that has none. spelled is the client's spelling if that differs,
// otherwise "". [Demand.Ask] and [Demand.Join] have to follow.
func (d *Demand[S]) Begin(name, spelled string) *Interest[S] {
	d.guard.Writing()
	d.seq++
	w := &Interest[S]{stream: d.cfg.Route(name), seq: d.seq, spelled: spelled}
	d.interests[name] = w
	if d.fitted != nil {
		d.fitted[name] = w
	}
	d.bytes += Cost(name)
	return w
}

// Ask makes the stream of a new interest ask for its name. If the control plane has not yet been
// sent the end of an earlier interest, it is asked in the spelling that it knows. unknown says that
// nothing was received of the name. near reports that the names of the stream take more than four
// fifths of its bound, for the first time since they took less than three.
func (d *Demand[S]) Ask(w *Interest[S], name string, unknown bool) (near bool) {
	d.guard.Writing()
	if w.stream == Nobody {
		return false
	}
	d.streams[w.stream].wanted++
	return d.ask(w, name, unknown)
}

func (d *Demand[S]) ask(w *Interest[S], name string, unknown bool) (near bool) {
	s := &d.streams[w.stream]
	s.dropGhost(name)
	before, pending := s.changes[name]
	w.state = unasked
	if pending {
		w.state, w.spelled = asked, before.spelled
	}
	s.changes[name] = before
	if unknown {
		s.unanswered[name] = w
	}
	w.size = int32(RequestSize(name, w.spelled)) //nolint:gosec // requests are smaller
	return s.grow(int(w.size))
}

// Join adds a subscription to an interest in a name.
func (d *Demand[S]) Join(w *Interest[S], sub S) {
	d.guard.Writing()
	if w.Lingers() {
		d.lingering--
	}
	w.join(sub)
}

func (w *Interest[S]) join(sub S) {
	w.subs.add(sub)
	w.expires = time.Time{}
}

// JoinWildcard adds a subscription to the interest in the wildcard. begins reports that there was
// none.
func (d *Demand[S]) JoinWildcard(sub S) (begins bool) {
	d.guard.Writing()
	if begins = !d.wild.Demanded(); begins {
		d.seq++
		d.wild = Interest[S]{stream: d.wild.stream, seq: d.seq}
		if d.wild.stream != Nobody {
			s := &d.streams[d.wild.stream]
			s.wildcardChanged = true
			s.wanted++
			s.dropGhosts()
		}
	}
	d.wild.join(sub)
	return begins
}

// Leave removes a subscription from an interest in a name. last reports that it was the last one:
// the interest lingers, and ends at now unless [Interest.Linger] follows.
func (d *Demand[S]) Leave(w *Interest[S], sub S, now time.Time) (last bool) {
	d.guard.Writing()
	if last = w.leave(sub, now); last {
		d.lingering++
	}
	return last
}

// LeaveWildcard removes a subscription from the interest in the wildcard. last reports that it was
// the last one: the interest lingers until then.
func (d *Demand[S]) LeaveWildcard(sub S, until time.Time) (last bool) {
	d.guard.Writing()
	return d.wild.leave(sub, until)
}

func (w *Interest[S]) leave(sub S, until time.Time) (last bool) {
	w.subs.remove(sub)
	if last = w.subs.Len() == 0; last {
		w.expires = until
	}
	return last
}

// End removes an interest in a name, which has no subscribers.
func (d *Demand[S]) End(w *Interest[S], name string) {
	d.guard.Writing()
	delete(d.interests, name)
	delete(d.fitted, name)
	d.bytes -= Cost(name)
	if w.Lingers() {
		d.lingering--
	}
	if w.state == shed {
		d.shed--
	}
	if w.stream != Nobody {
		s := &d.streams[w.stream]
		delete(s.unanswered, name)
		s.wanted--
		d.stopAsking(w, name)
	}
}

// EndWildcard removes the interest in the wildcard. asked reports whether a control plane had been
// asked for it.
func (d *Demand[S]) EndWildcard() (asked bool) {
	d.guard.Writing()
	d.wild = Interest[S]{stream: d.wild.stream}
	if d.wild.stream == Nobody {
		return false
	}
	s := &d.streams[d.wild.stream]
	s.wildcardChanged = true
	s.wanted--
	return s.wildcardAsked
}

// stopAsking makes the stream of w no longer ask for its name, and unsubscribe from it if it has
// asked.
func (d *Demand[S]) stopAsking(w *Interest[S], name string) {
	s := &d.streams[w.stream]
	s.shrink(int(w.size))
	w.size = 0
	switch w.state {
	case asked:
		// It may have been a ghost subscription when the interest began.
		s.changes[name] = change{ghost: s.changes[name].ghost, takes: s.takes, spelled: w.spelled}
	case unasked:
		delete(s.changes, name)
	case shed: // the stream unsubscribes already
	}
}

// Shed makes the stream of w no longer ask for its name in spite of the interest in it. over says
// that the stream on which it was asked for has ended, so that there is nothing to unsubscribe.
func (d *Demand[S]) Shed(w *Interest[S], name string, over bool) {
	d.guard.Writing()
	if over {
		d.streams[w.stream].shrink(int(w.size))
		w.size = 0
	} else {
		d.stopAsking(w, name)
	}
	w.state = shed
	d.shed++
}

// AskAgain is [Demand.Ask] for a name that was shed: there is room for it now.
func (d *Demand[S]) AskAgain(w *Interest[S], name string, unknown bool) (near bool) {
	d.guard.Writing()
	d.shed--
	d.seq++
	w.seq = d.seq
	return d.ask(w, name, unknown)
}

// Discard forgets changes of a name that no control plane was sent: the next stream is sent the
// whole demand.
func (d *Demand[S]) Discard(name string) {
	d.guard.Writing()
	for i := range d.streams {
		delete(d.streams[i].changes, name)
	}
}
