package demand

import (
	"cmp"
	"slices"
)

// Request is what to ask of a control plane.
type Request struct {
	// Wildcard says that there is interest in "*"; WildcardChanged that this is news.
	Wildcard, WildcardChanged bool
	// Names is everything that is asked for by name, Subscribe and Unsubscribe are the changes, each
	// sorted. Again are those of Subscribe that the control plane may believe the relay holds
	// although it does not, so that an unsubscribe has to come first. Twice are those of Again that
	// need two of them: their interest ended and began again before the control plane was sent
	// either.
	Names, Subscribe, Unsubscribe, Again, Twice []string
}

// Take takes what a stream has to ask for. There may be very many names, so they are taken in steps:
// Changes, Whole if everything is taken, Names if all are needed, and Finish. Interests that begin
// or end after [Demand.Take] are left to the next one, so one sequence number says which names an
// answer includes: all that had interest then and still have.
type Take[S comparable] struct {
	demand *Demand[S]
	stream int
	all    bool
	takes  uint32      // see Stream.takes
	seq    uint64      // of the newest name that is taken
	many   bool        // so many names changed that their map takes much room
	over   func() bool // another Take may have begun, which takes everything
	size   int         // how many names are subscribed at most
	wanted int
	out    Request
}

// Take begins to take what has changed on a stream, or everything. over reports whether the stream
// has ended.
func (d *Demand[S]) Take(stream int, all bool, over func() bool) *Take[S] {
	d.guard.Writing()
	s := &d.streams[stream]
	s.takes++
	t := &Take[S]{demand: d, stream: stream, all: all, takes: s.takes, seq: d.seq, many: len(s.changes) > roomy, over: over, wanted: s.wanted}
	if t.size = s.wanted; !all {
		t.size = min(t.size, len(s.changes))
	}
	t.out.Wildcard = d.WildcardOn(stream)
	t.out.WildcardChanged = s.wildcardChanged && (t.out.Wildcard || s.wildcardAsked)
	if all {
		t.out.WildcardChanged = t.out.Wildcard
		s.ghosts = nil // a new stream states what the relay holds (C8)
	}
	s.wildcardChanged, s.wildcardAsked = false, t.out.Wildcard
	return t
}

// Reserve makes room for the result. It needs no lock.
func (t *Take[S]) Reserve(names bool) {
	t.out.Subscribe = make([]string, 0, t.size)
	if names {
		t.out.Names = make([]string, 0, t.wanted)
	}
}

// asks reports whether the stream asks for a name now.
func (t *Take[S]) asks(w *Interest[S]) bool { return w.AskedOf(t.stream) && w.seq <= t.seq }

// Changes takes the names that have changed, and calls pause after every step of them. If everything
// is taken, only those matter that the control plane may believe the relay holds.
func (t *Take[S]) Changes(step int, pause func()) {
	d := t.demand
	d.guard.Writing()
	s := &d.streams[t.stream]
	for n, c := range scan(&d.moved, &s.changes, step, pause) {
		if t.over() {
			return
		}
		w := d.interests[n]
		wanted := w.AskedOf(t.stream)
		if c.takes >= t.takes || wanted && w.seq > t.seq {
			continue
		}
		if wanted {
			t.again(w, n, c)
		}
		if wanted && t.all {
			continue // see Whole
		}
		delete(s.changes, n)
		switch {
		case wanted:
			t.subscribe(w, n)
		case !t.all:
			t.out.Unsubscribe = append(t.out.Unsubscribe, cmp.Or(c.spelled, n))
			s.unsubscribed(n, c, t.out.Wildcard)
			s.boundGhosts()
		}
	}
}

// again records that the control plane may believe the relay holds a name that is asked for.
func (t *Take[S]) again(w *Interest[S], name string, c change) {
	if w.state != asked {
		return
	}
	t.out.Again = append(t.out.Again, w.Name(name))
	if !c.ghost && t.demand.streams[t.stream].differences {
		t.out.Twice = append(t.out.Twice, w.Name(name))
	}
}

func (t *Take[S]) subscribe(w *Interest[S], name string) {
	t.out.Subscribe = append(t.out.Subscribe, w.Name(name))
	w.state = asked
}

// Whole takes all names if everything is taken, and calls pause after every step of them.
func (t *Take[S]) Whole(step int, pause func()) {
	d := t.demand
	d.guard.Writing()
	s := &d.streams[t.stream]
	for n, w := range d.Scan(step, pause) {
		if t.over() {
			return
		}
		if !t.asks(w) {
			continue
		}
		t.subscribe(w, n)
		if s.changes[n].takes < t.takes {
			delete(s.changes, n)
		}
	}
}

// Names lists all names that the stream asks for, and calls pause after every step of them. It only
// reads the demand.
func (t *Take[S]) Names(step int, pause func()) {
	for n, w := range t.demand.Scan(step, pause) {
		if t.over() {
			return
		}
		if t.asks(w) {
			t.out.Names = append(t.out.Names, w.Name(n))
		}
	}
}

// Finish records that the control plane is asked. news reports whether there is anything to send;
// [Take.Request] returns it.
func (t *Take[S]) Finish(step int) (news bool) {
	d := t.demand
	d.guard.Writing()
	s := &d.streams[t.stream]
	if t.many {
		s.changes = fitted(s.changes, step)
		d.moved++
	}
	s.asked = t.seq
	return t.out.WildcardChanged || len(t.out.Subscribe)+len(t.out.Unsubscribe) > 0
}

// Asked returns what the control plane of a stream was asked for and is still wanted, for another
// stream that is opened while the first one is in use, and calls pause after every step names. Changes
// that are pending are not in it: the next [Demand.Take] is for both streams. It only reads the
// demand. The names are not sorted.
func (d *Demand[S]) Asked(stream, step int, pause func()) Request {
	r := Request{Wildcard: d.Stream(stream).wildcardAsked}
	r.WildcardChanged = r.Wildcard
	for n, w := range d.Scan(step, pause) {
		if w.stream == stream && w.state == asked {
			r.Subscribe = append(r.Subscribe, w.Name(n))
		}
	}
	return r
}

// Request returns what to ask for, sorted. It needs no lock.
func (t *Take[S]) Request() Request {
	r := t.out
	for _, list := range [][]string{r.Names, r.Subscribe, r.Unsubscribe, r.Again, r.Twice} {
		slices.Sort(list) // there may be very many
	}
	return r
}
