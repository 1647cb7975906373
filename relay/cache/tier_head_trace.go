package cache

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// A head may carry the trace of the update that made it. The content arrives another way, sooner or
// later: from another node with its own trace context, or from a control plane without one. Where
// both meet, the trace continues.

// headTrace is a head of another node with a trace, whose content the table has not reached yet.
type headTrace struct {
	trace string // as W3C's traceparent; empty for none
	at    time.Time
}

// noteHeadTrace records the trace of a head that has just arrived.
func (t *core) noteHeadTrace(head TierHead, now time.Time) {
	a := &t.tierHead
	a.headTrace = headTrace{}
	if head.Trace == "" || head.Own || t.group.cache.cfg.Tracer == nil {
		return
	}
	a.headTrace = headTrace{head.Trace, now}
	if a.Reached() {
		t.reachedHead(now) // the content was faster
	}
}

// reachedHead makes a span of the time from the arrival of a head until the table has its
// content, which it does now. The span links to the update that brought the content, if that
// arrived before and on its own.
func (t *core) reachedHead(now time.Time) {
	h := t.tierHead.headTrace
	t.tierHead.headTrace = headTrace{}
	if !t.due(h, now) {
		return
	}
	head, _ := t.tierHead.Head()
	t.group.cache.cfg.Tracer.Below(h.trace, "head", t.traced(), h.at, now,
		attribute.String("xds.type", resource.TypeLabel(t.Type.URL)), attribute.String("xdsrelay.key", string(t.group.Key)),
		attribute.String("xds.version", head.Version))
}

// due reports whether a head has a trace, and arrived so recently that the equal content of the
// table is no coincidence.
func (t *core) due(h headTrace, now time.Time) bool {
	return h.trace != "" && now.Sub(h.at) <= t.group.cache.cfg.HeadWait
}

// traced is the update that made the newest change; nil if it is not traced, or no longer
// remembered.
func (t *core) traced() *trace.Update {
	if u, _ := t.updates.Newest(); u != nil && u.Gen == t.store.Gen() {
		return u.Trace
	}
	return nil
}

// parent is the trace context of an update that has just been applied: its own, or that of
// the head whose content the update has reached.
func (t *core) parent(u *Update, now time.Time) string {
	head, known := t.tierHead.Head()
	if traced := t.tierHead.headTrace; u.Parent == "" && known && t.due(traced, now) && t.store.All() == head.Digest {
		return traced.trace // the content is compared with the head only after this
	}
	return u.Parent
}
