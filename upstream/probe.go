package upstream

import (
	"context"
	"errors"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/quarantine"
)

// A key requests its quarantined types on a second stream to the same server, one type at a time,
// so that the end of the stream is due to that type, and a key never has more than one extra
// stream. A type whose stream has received an answer, or has lasted for evidenceWindow, moves to
// the main stream. A type whose stream has ended waits longer each time.

// probeDue returns when the quarantine of l needs an action, zero for never.
func (l *serverStream) probeDue() (at time.Time) {
	if p := l.probe; p != nil {
		if p.session == nil {
			return at
		}
		a := p.session.types[p.probeFor.typ.URL]
		// An answer of several frames is received completely, since the main stream would not
		// continue it: the server may have nothing to add there (K13).
		if l.trusts(a.typ) && a.completeAt.IsZero() {
			return a.since
		}
		return a.since.Add(evidenceWindow)
	}
	if q := l.nextQuarantined(); q != nil {
		return q.due
	}
	return at
}

// nextQuarantined returns the type to request next, nil if there is none.
func (l *serverStream) nextQuarantined() (next *quarantineState) {
	for _, q := range l.quarantined {
		if !q.idle && (next == nil || q.due.Before(next.due)) {
			next = q
		}
	}
	return next
}

// runProbe does what is due at now for the quarantined types of l.
func (r *runner) runProbe(ctx context.Context, l *serverStream, now time.Time) {
	at := l.probeDue()
	if shadowing {
		l.compareNext(at)
	}
	switch {
	case at.IsZero() || at.After(now):
	case l.probe != nil: // the type is harmless
		q := l.probe.probeFor
		r.stopProbe(l)
		r.release(l, q)
	case !l.server.reachable():
		l.nextQuarantined().due = now.Add(jittered(firstProbe))
		l.shadow.Postpone(now)
	default:
		ctx, stop := context.WithCancel(ctx)
		p := &serverStream{server: l.server, events: r.events, stop: stop, probeFor: l.nextQuarantined(), primary: l}
		l.probe = p
		if shadowing {
			l.shadow.StartProbe(p.probeFor.typ, now)
			l.compare("the start of a probe")
		}
		r.group.Go(func() { p.runStream(ctx) })
	}
}

// handleProbe is handle for probe streams.
func (r *runner) handleProbe(ctx context.Context, ev event) {
	p, q := ev.serverStream, ev.serverStream.probeFor
	l := p.primary
	if r.serverStreams[l.server.index] != l || l.probe != p {
		return // abandoned
	}
	switch ev.kind {
	case evOpened:
		for other := range r.sessions() {
			other.missed = other.missed || other.serverStream != l // they do not see the demand that is taken here
		}
		p.session = ev.session
		p.session.node = r.feed.Node()
		r.askType(p.session, q.typ)
		if p.session.types[q.typ.URL] == nil {
			r.setIdle(l, q, true)
			r.stopProbe(l)
		}
		if shadowing {
			l.shadow.ProbeOpened(p.session.types[q.typ.URL] != nil, time.Now())
			l.compare("the opening of a probe")
		}
	case evHeaders:
	case evResponse:
		if s := p.session; !s.up {
			s.up = true
			r.cp.metrics.stream(1)
		}
		r.useServer(l)
		r.respond(p.session, ev.response)
		r.runProbe(ctx, l, time.Now())
	case evFailed, evEnded:
		r.stopProbe(l)
		if errors.Is(ev.end.err, errRenewed) {
			q.due = time.Now()
			if shadowing {
				l.shadow.ProbeRenewed(time.Now())
				l.compare("the renewal of a probe")
			}
			return
		}
		q.due = time.Now().Add(jittered(q.pause))
		if !ev.end.opened {
			if shadowing {
				l.shadow.ProbeFailed(time.Now())
				l.compare("the failure of a probe")
			}
			return
		}
		q.pause = min(2*q.pause, lastProbe)
		if q.failures++; ev.end.points() > 0 || q.reported || q.failures*weak >= proof {
			l.cautious = true
			r.report(l, q, ev.end.err)
		}
		if shadowing {
			l.shadow.ProbeEnded(quarantine.Ending{Points: ev.end.points(), Why: ev.end.err}, time.Now())
			l.compare("the end of a probe")
		}
	}
}

// stopProbe ends the probe stream of l, or the attempt to open it.
func (r *runner) stopProbe(l *serverStream) {
	p := l.probe
	if p == nil {
		return
	}
	p.stop()
	if p.session != nil && p.session.up {
		r.cp.metrics.stream(-1)
	}
	l.probe = nil
}

// askType sends everything that is wanted of one type to the control plane.
func (r *runner) askType(s *session, t *resource.Type) {
	if d, ok := r.feed.TakeAll(t, !r.cp.cfg.Delta); ok {
		r.ask(s, []cache.Demand{d}, true)
	}
}

// streams iterates over all open streams: the sessions and the probe streams.
func (r *runner) streams() func(yield func(*session) bool) {
	return func(yield func(*session) bool) {
		for s := range r.sessions() {
			if !yield(s) {
				return
			}
		}
		for _, l := range r.serverStreams {
			if l != nil && l.probe != nil && l.probe.session != nil && !yield(l.probe.session) {
				return
			}
		}
	}
}
