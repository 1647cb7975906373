package relay

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/rollouts"
	"xdsrelay/relay/trace"
)

// rolloutTraces makes a trace of each rollout when it is over: a span for the whole, one for each step and one
// for the final bake, with the decisions as events. A node that becomes the owner of a key in the middle of
// a rollout traces what it decides itself.
type rolloutTraces struct {
	tracer *trace.Tracer // fixed; nil: nothing is traced

	mu   sync.Mutex
	open map[string]*trace.Past // rollouts under way by key; guarded by mu
}

const (
	// maxTraced bounds the rollouts that are traced at a time. Of a key that this node does not own any more,
	// one stays until then.
	maxTraced = 1000
	// maxMoments bounds the events of a rollout.
	maxMoments = 100
)

// add adds a decision that took effect.
func (r *rolloutTraces) add(d *rollouts.Effective) {
	if r.tracer == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.open[d.Key]
	if p != nil && d.What == "started" {
		r.end(d.Key, d.At, "superseded")
		p = nil
	}
	if p == nil && !d.Over {
		p = r.begin(d)
	}
	if p == nil {
		return
	}
	if len(p.Moments) < maxMoments {
		p.Moments = append(p.Moments, trace.Moment{Name: d.What, At: d.At, About: []attribute.KeyValue{
			attribute.String("xdsrelay.rollout.reason", redact.Short(d.Why, maxOrderText)), attribute.String("xdsrelay.rollout.by", redact.Short(d.By, maxOrderText)),
			attribute.Int("xdsrelay.rollout.canaries", d.Canaries), attribute.Int("xdsrelay.rollout.affected", d.Affected),
		}})
	}
	switch d.What {
	case "step":
		endPart(p, d.At)
		p.Parts = append(p.Parts, trace.Past{Name: "step", From: d.At, About: []attribute.KeyValue{
			attribute.Int("xdsrelay.rollout.step", d.Step), attribute.String("xdsrelay.rollout.share", d.Share.String()), attribute.Int("xdsrelay.rollout.canaries", d.Canaries),
		}})
	case "passed", "outgrown":
		endPart(p, d.At)
	case "promoted":
		endPart(p, d.At)
		p.Parts = append(p.Parts, trace.Past{Name: "final bake", From: d.At})
	case "failed":
		p.Failed = redact.Short(d.Why, maxOrderText)
	}
	if d.Over {
		r.end(d.Key, d.At, d.What)
	}
}

// begin begins the trace of a rollout. mu is held.
func (r *rolloutTraces) begin(d *rollouts.Effective) *trace.Past {
	if len(r.open) >= maxTraced {
		oldest := ""
		for key, p := range r.open {
			if oldest == "" || p.From.Before(r.open[oldest].From) {
				oldest = key
			}
		}
		r.end(oldest, d.At, "unknown")
	}
	p := &trace.Past{Name: "rollout", From: d.At, About: []attribute.KeyValue{
		attribute.String("xdsrelay.key", d.Key), attribute.String("xdsrelay.rollout.revision", d.Revision), attribute.String("xdsrelay.rollout.policy", d.Policy),
	}}
	r.open[d.Key] = p
	return p
}

// end ends the trace of a rollout with the decision that ended it. mu is held.
func (r *rolloutTraces) end(key string, at time.Time, decision string) {
	p := r.open[key]
	delete(r.open, key)
	endPart(p, at)
	p.To = at
	p.About = append(p.About, attribute.String("xdsrelay.rollout.decision", decision))
	r.tracer.Record(p)
}

// endPart ends the part of a rollout that is under way, if any.
func endPart(p *trace.Past, at time.Time) {
	if n := len(p.Parts); n > 0 && p.Parts[n-1].To.IsZero() {
		p.Parts[n-1].To = at
	}
}
