package upstream

import (
	"context"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// arm sets the timer to the next thing that has to be done.
func (r *runner) arm() {
	var next time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for s := range r.streams() {
		sooner(s.next())
	}
	for _, l := range r.links {
		if l != nil {
			sooner(l.probeDue())
		}
	}
	if next.IsZero() {
		r.timer.Stop()
		return
	}
	r.timer.Reset(time.Until(next))
}

// tick does what is due at now.
func (r *runner) tick(ctx context.Context, now time.Time) {
	for s := range r.streams() {
		for _, w := range s.absences.expired(now) {
			r.absent(s, w)
		}
		for _, a := range s.types {
			if due(&a.lateAt, now) {
				s.flush(a)
			}
			if due(&a.settledAt, now) {
				r.apply(s, a, cache.Update{Type: a.typ}) // the large answer is complete
			}
			if due(&a.sweepAt, now) {
				r.sweep(a)
			}
		}
		due(&s.settleAt, now)
		if s.link.probes == nil {
			r.settle(s, now)
		}
	}
	for _, l := range r.links {
		if l != nil {
			r.seeTo(ctx, l, now)
		}
	}
}

// absent reports the names about which the origin has said nothing (C12).
func (r *runner) absent(s *session, w awaited) {
	names := r.feed.Missing(w.typ, w.names)
	if a := s.types[w.typ.URL]; a != nil && a.rejected != nil {
		kept := names[:0]
		for _, n := range names {
			if _, exists := a.rejected[resource.Canonical(n)]; !exists {
				kept = append(kept, n)
			}
		}
		names = kept
		if !s.absences.awaits(w.typ.URL) {
			a.rejected = nil
		}
	}
	if len(names) > 0 {
		r.feed.Absent(w.typ, names)
	}
}

// settle counts a silent stream as taking part once it has stood for a while
// and nothing is missing, beside what is asked for elsewhere: a server that has nothing new to say to a returning
// client need not even send headers. While something is missing, silence says
// nothing.
func (r *runner) settle(s *session, now time.Time) {
	if !s.up && s.settleAt.IsZero() && now.Sub(s.opened) >= settleAfter && !r.feed.Waiting(s.link.setsApart) {
		r.setUp(s, false)
	}
}
