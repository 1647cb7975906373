package demand

import (
	"maps"
)

// Stream is what was asked on one upstream stream, and was answered. Each new interest gets the next
// sequence number; a response answers all that had been asked when it arrived (K13).
type Stream[S comparable] struct {
	bound           int // see Config.Bounds
	asked, answered uint64
	unanswered      map[string]*Interest[S] // interests without an answer, of which no stream has sent anything; see Open
	outdated        bool                    // some of unanswered have been answered
	wanted          int                     // its interests: names and the wildcard
	size            int                     // size of these names in a request, in bytes
	near            bool                    // size is close to the bound, and was reported
	changes         map[string]change       // names to subscribe or to unsubscribe
	takes           uint32                  // how often Take has started
	wildcardChanged bool                    // the wildcard was joined or left
	wildcardAsked   bool                    // the control plane has been asked for the wildcard
	ghosts          map[string]string       // as the control plane spells them
	differences     bool                    // the control plane tracks what it has sent
}

// change is a change of one name that the control plane still has to be sent: subscribe if there is
// interest in the name on the stream, otherwise unsubscribe.
type change struct {
	ghost   bool   // see ghosts.go
	takes   uint32 // Stream.takes when the interest ended
	spelled string // how the name was asked for, or how the control plane spells it; "" for the canonical form
}

// Stream returns a stream, to read.
func (d *Demand[S]) Stream(stream int) *Stream[S] {
	d.guard.Reading()
	return &d.streams[stream]
}

// Wanted is the number of interests that the stream serves: names and the wildcard.
func (s *Stream[S]) Wanted() int { return s.wanted }

// Size is the size of the names that the stream asks for in a request, in bytes.
func (s *Stream[S]) Size() int { return s.size }

// HasAsked reports whether the control plane was ever asked for anything; HasAnswered, whether it
// has answered.
func (s *Stream[S]) HasAsked() bool { return s.asked > 0 }

// HasAnswered reports whether the control plane has ever answered.
func (s *Stream[S]) HasAnswered() bool { return s.answered > 0 }

// Unanswered is the number of names that wait for an answer, and of some that were answered if it is
// [Stream.Outdated].
func (s *Stream[S]) Unanswered() int { return len(s.unanswered) }

// Outdated reports that [Demand.ForgetAnswered] has to be called.
func (s *Stream[S]) Outdated() bool { return s.outdated }

// WildcardAsked reports whether the control plane has been asked for the wildcard.
func (s *Stream[S]) WildcardAsked() bool { return s.wildcardAsked }

// WildcardChanged reports whether the wildcard was joined or left, and that has not been sent.
func (s *Stream[S]) WildcardChanged() bool { return s.wildcardChanged }

// grow counts a name that the stream begins to ask for.
func (s *Stream[S]) grow(size int) (near bool) {
	s.size += size
	near = s.bound > 0 && !s.near && s.size > s.bound/5*4
	s.near = s.near || near
	return near
}

// shrink counts a name that the stream no longer asks for.
func (s *Stream[S]) shrink(size int) {
	s.size -= size
	if s.size < s.bound/5*3 {
		s.near = false
	}
}

// Changed returns the set of streams on which [Demand.Take] would return something.
func (d *Demand[S]) Changed() (streams uint64) {
	d.guard.Reading()
	for i := range d.streams {
		if s := &d.streams[i]; s.wildcardChanged || len(s.changes) > 0 {
			streams |= 1 << i
		}
	}
	return streams
}

// Answered reports whether w is known, as far as its stream can answer. That no stream serves a name
// means that it does not exist, which is an answer.
func (d *Demand[S]) Answered(w *Interest[S]) bool {
	d.guard.Reading()
	return w.stream == Nobody || w.seq <= d.streams[w.stream].answered
}

// WildcardAnswered reports whether there is interest in the wildcard, and it was answered.
func (d *Demand[S]) WildcardAnswered() bool { return d.wild.Demanded() && d.Answered(&d.wild) }

// WildcardOn reports whether there is interest in the wildcard, and a stream serves it.
func (d *Demand[S]) WildcardOn(stream int) bool {
	d.guard.Reading()
	return d.wild.stream == stream && d.wild.Demanded()
}

// LacksWildcard reports whether a stream has interest in the wildcard and no answer for it.
func (d *Demand[S]) LacksWildcard(stream int) bool {
	return d.WildcardOn(stream) && !d.Answered(&d.wild)
}

// Open reports whether the interest w in name waits for an answer.
func (d *Demand[S]) Open(w *Interest[S], name string) bool {
	if w.stream == Nobody {
		return false
	}
	_, listed := d.streams[w.stream].unanswered[name]
	return listed && (!d.Answered(w) || d.cfg.EmptyGlob(name))
}

// OpenAmong reports whether any of names waits for an answer of a stream, of those for which lacks
// returns true. likely is one of them that usually does if any does.
func (d *Demand[S]) OpenAmong(stream int, names map[string]struct{}, likely string, lacks func(name string) bool) bool {
	d.guard.Reading()
	unanswered := d.streams[stream].unanswered
	if len(unanswered) == 0 {
		return false
	}
	waits := func(n string) bool {
		w, listed := unanswered[n]
		_, named := names[n]
		return listed && named && lacks(n) && d.Open(w, n)
	}
	if waits(likely) {
		return true
	}
	if len(unanswered) < len(names) {
		for n := range unanswered {
			if waits(n) {
				return true
			}
		}
		return false
	}
	for n := range names {
		if waits(n) {
			return true
		}
	}
	return false
}

// Answer records that a stream has answered all that it was asked. news reports whether that was
// anything. If more than step names are answered at once, they stay in a list until
// [Demand.ForgetAnswered].
func (d *Demand[S]) Answer(stream, step int) (news bool) {
	d.guard.Writing()
	s := &d.streams[stream]
	if s.asked == s.answered {
		return false
	}
	s.answered = s.asked
	if len(s.unanswered) <= step {
		maps.DeleteFunc(s.unanswered, func(n string, w *Interest[S]) bool { return !d.Open(w, n) })
	} else {
		s.outdated = true
	}
	if len(s.unanswered) == 0 { // with the room of all names that were asked for
		s.unanswered = make(map[string]*Interest[S])
		d.moved++
	}
	return true
}

// AnsweredTo reports whether a stream has answered all interests up to a sequence number.
func (s *Stream[S]) AnsweredTo(seq uint64) bool { return seq <= s.answered }

// ForgetAnswered completes [Demand.Answer], and calls pause after every step names.
func (d *Demand[S]) ForgetAnswered(stream, step int, pause func()) {
	d.guard.Writing()
	s := &d.streams[stream]
	for n, w := range scan(&d.moved, &s.unanswered, step, pause) {
		if !d.Open(w, n) {
			delete(s.unanswered, n)
		}
	}
	s.outdated = false
	s.unanswered = fitted(s.unanswered, step)
	d.moved++
}

// Close records that name needs no answer any more.
func (d *Demand[S]) Close(w *Interest[S], name string) {
	d.guard.Writing()
	if w.stream != Nobody {
		delete(d.streams[w.stream].unanswered, name)
	}
}

// Reopen records that name needs an answer again.
func (d *Demand[S]) Reopen(w *Interest[S], name string) {
	d.guard.Writing()
	d.streams[w.stream].unanswered[name] = w
}

// Doubt makes w count as not answered by its stream, until that answers all that it is asked next.
func (d *Demand[S]) Doubt(w *Interest[S]) {
	d.guard.Writing()
	d.seq++
	w.seq = d.seq
}

// Presume makes w count as answered by its stream. It returns what [Demand.Retract] needs to reverse
// that; otherwise [Demand.Close] has to follow.
func (d *Demand[S]) Presume(w *Interest[S]) (seq uint64) {
	d.guard.Writing()
	seq, w.seq = w.seq, min(w.seq, d.streams[w.stream].answered)
	return seq
}

// Retract reverses [Demand.Presume].
func (d *Demand[S]) Retract(w *Interest[S], seq uint64) {
	d.guard.Writing()
	w.seq = seq
}
