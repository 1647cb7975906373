package upstream

import (
	"context"
	"errors"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/conversation"
	"xdsrelay/upstream/quarantine"
)

// nextProbe returns what to do next for the quarantined types of l.
func (l *serverStream) nextProbe() quarantine.Decision {
	var v quarantine.View
	if p := l.probe; p != nil && p.session != nil {
		a := p.session.types[p.probeFor.URL]
		v = quarantine.View{Since: a.since, Incomplete: a.Frames == conversation.Partial}
	}
	return l.types.Next(v)
}

// runProbe does what is due at now for the quarantined types of l.
func (r *runner) runProbe(ctx context.Context, l *serverStream, now time.Time) {
	next := l.nextProbe()
	switch {
	case next.Act == quarantine.Nothing || next.At.After(now):
	case next.Act == quarantine.Release:
		r.stopProbe(l)
		r.demand(ctx, false)
		r.inform(l, l.types.Release(now))
		if s := l.session; s != nil {
			r.askType(s, next.Type)
		}
	case !l.server.reachable():
		l.types.Postpone(next.Type, now)
	default:
		ctx, stop := context.WithCancel(ctx)
		p := &serverStream{server: l.server, events: r.events, stop: stop, probeFor: next.Type, primary: l}
		l.probe = p
		l.types.StartProbe(next.Type, now)
		r.group.Go(func() { p.runStream(ctx) })
	}
}

// handleProbe is handle for probe streams.
func (r *runner) handleProbe(ctx context.Context, ev event) {
	p := ev.serverStream
	l := p.primary
	if r.serverStreams[l.server.index] != l || l.probe != p {
		return // abandoned
	}
	now := time.Now()
	switch ev.kind {
	case evOpened:
		r.demand(ctx, false)
		p.session = ev.session
		p.session.node = r.feed.Node()
		r.askType(p.session, p.probeFor)
		requested := p.session.types[p.probeFor.URL] != nil
		r.inform(l, l.types.ProbeOpened(requested, now))
		if !requested {
			r.stopProbe(l)
		}
	case evHeaders:
	case evResponse:
		if s := p.session; !s.up() {
			s.accepted = byAnswer
			r.cp.metrics.stream(1)
		}
		r.useServer(l)
		r.respond(p.session, ev.response)
		r.runProbe(ctx, l, time.Now())
	case evFailed:
		r.stopProbe(l)
		l.types.ProbeFailed(now)
	case evEnded:
		r.stopProbe(l)
		if errors.Is(ev.end.err, errRenewed) {
			l.types.ProbeRenewed(now)
			return
		}
		r.inform(l, l.types.ProbeEnded(ev.end.evidence(p.session), now))
	}
}

// stopProbe ends the probe stream of l, or the attempt to open it.
func (r *runner) stopProbe(l *serverStream) {
	p := l.probe
	if p == nil {
		return
	}
	p.stop()
	if p.session != nil && p.session.up() {
		r.cp.metrics.stream(-1)
	}
	l.probe = nil
}

// askType sends everything that is wanted of one type to the control plane. The changes have been
// taken.
func (r *runner) askType(s *session, t *resource.Type) {
	if d, ok := r.feed.CopyOf(t, !r.cp.cfg.Delta); ok {
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
