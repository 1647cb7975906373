package upstream

import (
	"context"
	"errors"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A key asks for the types that are set apart on a second stream to the same server,
// for one at a time, so that each answers for itself, and a key never has more than
// one stream too many. A type whose stream has brought an answer, or has stood for
// blameFor, goes to the key's stream. One whose stream has ended waits longer each time.

// probeDue is when something has to be done about what l has set apart, zero for never.
func (l *link) probeDue() (at time.Time) {
	if p := l.probe; p != nil {
		if p.session == nil {
			return at
		}
		a := p.session.types[p.probes.typ.URL]
		// An answer of several frames is taken whole, since the rest of it would be
		// none on another stream: the server may have nothing to add there (K13).
		if l.knows(a.typ) && a.settledAt.IsZero() {
			return a.since
		}
		return a.since.Add(blameFor)
	}
	if sus := l.nextSuspect(); sus != nil {
		return sus.due
	}
	return at
}

// nextSuspect is the one that is to be asked for next, nil if there is none.
func (l *link) nextSuspect() (next *suspect) {
	for _, sus := range l.apart {
		if !sus.idle && (next == nil || sus.due.Before(next.due)) {
			next = sus
		}
	}
	return next
}

// seeTo does what is due at now about what l has set apart.
func (r *runner) seeTo(ctx context.Context, l *link, now time.Time) {
	at := l.probeDue()
	switch {
	case at.IsZero() || at.After(now):
	case l.probe != nil: // it has done well
		sus := l.probe.probes
		r.stopProbe(l)
		r.rejoin(l, sus)
	case !l.server.reachable():
		l.nextSuspect().due = now.Add(spreadOut(firstProbe))
	default:
		ctx, stop := context.WithCancel(ctx)
		p := &link{server: l.server, events: r.events, stop: stop, probes: l.nextSuspect(), of: l}
		l.probe = p
		r.group.Go(func() { p.attempt(ctx) })
	}
}

// handleProbe is handle for a second stream.
func (r *runner) handleProbe(ctx context.Context, ev event) {
	p, sus := ev.link, ev.link.probes
	l := p.of
	if r.links[l.server.index] != l || l.probe != p {
		return // given up
	}
	switch ev.kind {
	case evOpened:
		for other := range r.sessions() {
			other.missed = other.missed || other.link != l // what is taken here is not told to it
		}
		p.session = ev.session
		p.session.node = r.feed.Node()
		r.askAlone(p.session, sus.typ)
		if p.session.types[sus.typ.URL] == nil {
			r.setIdle(l, sus, true)
			r.stopProbe(l)
		}
	case evHeaders:
	case evResponse:
		if s := p.session; !s.up {
			s.up = true
			r.cp.metrics.stream(1)
		}
		r.adopt(l)
		r.respond(p.session, ev.response)
		r.seeTo(ctx, l, time.Now())
	case evFailed, evEnded:
		r.stopProbe(l)
		if errors.Is(ev.end.err, errRenewed) {
			sus.due = time.Now()
			return
		}
		sus.due = time.Now().Add(spreadOut(sus.pause))
		if !ev.end.opened {
			return
		}
		sus.pause = min(2*sus.pause, lastProbe)
		if sus.ends++; ev.end.against() > 0 || sus.said || sus.ends*maybe >= proof {
			l.wary = true
			r.blame(l, sus, ev.end.err)
		}
	}
}

// stopProbe ends the second stream of l, or the attempt at it.
func (r *runner) stopProbe(l *link) {
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

// askAlone puts all that is wanted of one type to the origin.
func (r *runner) askAlone(s *session, t *resource.Type) {
	if d, ok := r.feed.TakeAll(t, !r.cp.cfg.Delta); ok {
		r.ask(s, []cache.Demand{d}, true)
	}
}

// streams goes through all that are open: the sessions, and second streams.
func (r *runner) streams() func(yield func(*session) bool) {
	return func(yield func(*session) bool) {
		for s := range r.sessions() {
			if !yield(s) {
				return
			}
		}
		for _, l := range r.links {
			if l != nil && l.probe != nil && l.probe.session != nil && !yield(l.probe.session) {
				return
			}
		}
	}
}
