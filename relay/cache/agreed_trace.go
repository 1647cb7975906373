package cache

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// A head may come with the trace of the update that made it. The content comes another
// way, sooner or later, and from another node that brings its own trace context, or from
// an origin, which has none. Where both meet, the trace goes on.

// heard is a head of another node with a trace, which the table has not met since.
type heard struct {
	trace string // as W3C's traceparent; empty for none
	at    time.Time
}

// hearLocked notes the trace of a head that has just come.
func (t *Table) hearLocked(head Agreed, now time.Time) {
	a := t.agreed
	a.heard = heard{}
	if head.Trace == "" || head.Own || t.group.cache.cfg.Tracer == nil {
		return
	}
	a.heard = heard{head.Trace, now}
	if t.allLocked() == head.Digest {
		t.meetLocked(now) // the content was faster
	}
}

// meetLocked makes a span of the time from hearing of a head until the table holds the
// same, which it does now. It points to the update that made it so, if that came before
// and by itself.
func (t *Table) meetLocked(now time.Time) {
	h := t.agreed.heard
	t.agreed.heard = heard{}
	if !t.due(h, now) {
		return
	}
	t.group.cache.cfg.Tracer.Below(h.trace, "head", t.tracedLocked(), h.at, now,
		attribute.String("xds.type", resource.TypeLabel(t.Type.URL)), attribute.String("xdsrelay.key", string(t.group.Key)),
		attribute.String("xds.version", t.agreed.head.Version))
}

// due reports whether a head has a trace, and came so short a while ago that it is not
// by chance that the table holds the same now.
func (t *Table) due(h heard, now time.Time) bool {
	return h.trace != "" && now.Sub(h.at) <= t.group.cache.cfg.HeadWait
}

// tracedLocked is the update that made the newest change; nil where it is not traced, or
// has been forgotten.
func (t *Table) tracedLocked() *trace.Update {
	if n := t.stamps.n; n > 0 && t.stamps.of(n).gen == t.gen {
		return t.stamps.of(n).trace
	}
	return nil
}

// parentLocked is the trace context of an update that has just been applied: the one
// that came with it, or else that of the head which the table has met by it.
func (t *Table) parentLocked(u *Update, now time.Time) string {
	if a := t.agreed; u.Parent == "" && a != nil && t.due(a.heard, now) && t.allLocked() == a.head.Digest {
		return a.heard.trace
	}
	return u.Parent
}
