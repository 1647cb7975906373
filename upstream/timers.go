package upstream

import (
	"context"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/conversation"
)

// arm sets the timer to the next action.
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
	for _, l := range r.serverStreams {
		if l != nil {
			sooner(l.nextProbe().At)
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
	waited := false // the demand of a type, for a reply
	for s := range r.streams() {
		for _, w := range s.absences.expired(now) {
			r.absent(s, w)
		}
		for _, a := range s.types {
			if due(&a.replyAt, now) {
				waited = waited || a.Reply == conversation.Deferred
				r.flush(s, a)
			}
			if due(&a.completeAt, now) {
				a.FramesEnd()
				r.apply(s, a, cache.Update{Type: a.Type}) // the large answer is complete
			}
			if due(&a.sweepAt, now) {
				r.sweep(a)
			}
		}
		due(&s.silenceAt, now)
		if s.serverStream.probeFor == nil {
			r.acceptSilence(s, now)
		}
	}
	if waited {
		r.demand(ctx, false)
	}
	for _, l := range r.serverStreams {
		if l != nil {
			r.runProbe(ctx, l, now)
		}
	}
}

// absent reports the names that the control plane has not answered (C12).
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

// acceptSilence marks a silent stream as up once it has been open for a while and nothing is
// missing except types on probe streams: a server that has nothing new for a returning client need
// not even send headers. While something is missing, silence means nothing.
func (r *runner) acceptSilence(s *session, now time.Time) {
	if !s.up() && s.silenceAt.IsZero() && now.Sub(s.opened) >= silenceAfter && !r.feed.Waiting(s.serverStream.quarantines) {
		r.markUp(s, bySilence)
	}
}
