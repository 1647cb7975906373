package upstream

import (
	"fmt"
	"time"

	"xdsrelay/upstream/quarantine"
)

// compare panics where the shadow of l differs from its fields.
func (l *serverStream) compare(after string) {
	known := make(map[string]bool)
	for url := range l.trusted {
		known[url] = true
	}
	for url := range l.points {
		known[url] = true
	}
	for url := range l.quarantined {
		known[url] = true
	}
	for url := range known {
		if got, want := l.shadow.State(url), l.stateOf(url); got != want {
			panic(fmt.Sprintf("after %s, the shadow of %s is %v, and the fields say %v", after, url, got, want))
		}
	}
	for _, url := range l.shadow.URLs() {
		if got, want := l.shadow.State(url), l.stateOf(url); got != want {
			panic(fmt.Sprintf("after %s, the shadow of %s is %v, and the fields say %v", after, url, got, want))
		}
	}
}

func (l *serverStream) stateOf(url string) quarantine.State {
	_, trusted := l.trusted[url]
	q := l.quarantined[url]
	s := quarantine.State{}
	if q == nil {
		switch {
		case trusted:
			s.Verdict = quarantine.Harmless
		case l.points[url] > 0:
			s.Verdict = quarantine.Accused
		}
		return s
	}
	switch {
	case q.idle:
		s.Place = quarantine.Unwanted
	case l.probe != nil && l.probe.probeFor == q && l.probe.session == nil:
		s.Place = quarantine.Opening
	case l.probe != nil && l.probe.probeFor == q:
		s.Place = quarantine.Probing
	default:
		s.Place = quarantine.Waiting
	}
	switch {
	case trusted && q.reported:
		s.Verdict = quarantine.Acquitted
	case trusted:
		s.Verdict = quarantine.Harmless
	case q.reported:
		s.Verdict = quarantine.Accused
	}
	return s
}

// compareNext panics where the shadow would do something else next.
func (l *serverStream) compareNext(at time.Time) {
	v := quarantine.View{}
	if p := l.probe; p != nil && p.session != nil {
		a := p.session.types[p.probeFor.typ.URL]
		v = quarantine.View{Since: a.since, Incomplete: !a.completeAt.IsZero()}
	}
	d := l.shadow.Next(v)
	if (d.Act == quarantine.Nothing) != at.IsZero() || (d.Act == quarantine.Release) != (!at.IsZero() && l.probe != nil) {
		panic(fmt.Sprintf("the shadow does %v at %v, and the fields say at %v", d.Act, d.At, at))
	}
	far := at.Sub(d.At).Abs()
	switch d.Act {
	case quarantine.Release:
		if far != 0 {
			panic(fmt.Sprintf("the shadow releases at %v, and the fields say at %v", d.At, at))
		}
	case quarantine.Probe:
		if q := l.nextQuarantined(); q.typ == d.Type && far > lastProbe/4 || q.typ == d.Type && q.pause < lastProbe && far > q.pause/4 {
			panic(fmt.Sprintf("the shadow probes at %v, and the fields say at %v with the pause %v", d.At, at, q.pause))
		}
	}
}
