package trace

import (
	"context"
	"slices"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
)

// The clients of a tier are connected to several nodes, and each node knows only of the
// answers of its own. So the node whose update is above those of others asks them how far
// they are before it ends its span.

// Part is how far the update of one node has come that is below a span of another.
type Part struct {
	// Span is the id of the span above.
	Span string `json:"span"`
	// Open says that answers are missing, and Incomplete that they always will be.
	Open       bool `json:"open,omitempty"`
	Incomplete bool `json:"incomplete,omitempty"`
	// Acks and Nacks count the answers of clients, Why is the reason of the first NACK.
	Acks  int64  `json:"acks,omitempty"`
	Nacks int64  `json:"nacks,omitempty"`
	Why   string `json:"why,omitempty"`
	// Ago is how long ago the last answer came, or else the update was applied, in
	// seconds: the clocks of nodes may differ.
	Ago float64 `json:"ago_seconds"`
}

// Ask asks the other nodes for what they have below some spans.
type Ask func(ctx context.Context, spans []string) []Part

const (
	// partPause is between two questions to the other nodes.
	partPause = 250 * time.Millisecond
	// mostSpans bounds the spans of one question.
	mostSpans = 64
)

// Follow makes the span of an update that was sent to other nodes last until their
// clients have answered, too, as far as ask finds out. It is called once, before the
// first update.
func (t *Tracer) Follow(ask Ask) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ask = ask
}

// Parts answers the question of another node. Updates that are over are known for as
// long as there are not many newer ones.
func (t *Tracer) Parts(spans []string) []Part {
	if t == nil || len(spans) > mostSpans {
		return nil
	}
	t.mu.Lock()
	all := slices.Concat(t.over, t.flying)
	t.mu.Unlock()
	now := time.Now()
	var parts []Part
	for _, u := range all {
		if u.above != "" && slices.Contains(spans, u.above) {
			parts = append(parts, u.part(now))
		}
	}
	return parts
}

// part describes an update for the node that is above.
func (u *Update) part(now time.Time) Part {
	last := u.applied
	if at := moment(&u.lastAnswer); at.After(last) {
		last = at
	}
	state := u.state.Load()
	p := Part{
		Span: u.above, Open: state == flying, Incomplete: state != flying && state != complete,
		Acks: u.acked.Load(), Nacks: u.nacked.Load(), Ago: now.Sub(last).Seconds(),
	}
	if why := u.rejected.Load(); why != nil {
		p.Why = *why
	}
	return p
}

// add merges what another node has below the same span.
func (p *Part) add(o Part) {
	if p.Span == "" {
		*p = o
		return
	}
	p.Open, p.Incomplete = p.Open || o.Open, p.Incomplete || o.Incomplete
	p.Acks, p.Nacks, p.Ago = p.Acks+o.Acks, p.Nacks+o.Nacks, min(p.Ago, o.Ago)
	if p.Why == "" {
		p.Why = o.Why
	}
}

// asks reports whether other nodes have to be asked before the span of u ends.
func (t *Tracer) asks(u *Update) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ask != nil && u.peers.Load() > 0 && u.state.Load() == complete
}

// question asks about the oldest of the updates that wait for other nodes.
func (t *Tracer) question(ctx context.Context, answers chan<- map[string]Part) {
	var spans []string
	for _, u := range t.waiting[:min(len(t.waiting), mostSpans)] {
		spans = append(spans, spanOf(u.ctx))
	}
	t.mu.Lock()
	ask := t.ask
	t.mu.Unlock()
	t.work.Go(func() {
		all := make(map[string]Part, len(spans))
		for _, s := range spans {
			all[s] = Part{}
		}
		for _, p := range ask(ctx, spans) {
			one := all[p.Span]
			one.add(p)
			all[p.Span] = one
		}
		answers <- all
	})
}

// answered ends the updates of which all nodes have all answers. now is when the other
// nodes answered.
func (t *Tracer) answered(all map[string]Part, now time.Time) {
	late := now.Add(-t.cfg.Timeout - time.Second) // the other nodes give up before
	t.waiting = slices.DeleteFunc(t.waiting, func(u *Update) bool {
		part, asked := all[spanOf(u.ctx)]
		if !asked || part.Open && u.source.Received.After(late) {
			return false
		}
		part.Incomplete = part.Incomplete || part.Open
		t.emit(u, part, now)
		return true
	})
}

// spanOf is the id of the span of a context, empty for none.
func spanOf(ctx context.Context) string {
	if of := oteltrace.SpanContextFromContext(ctx); of.IsValid() {
		return of.SpanID().String()
	}
	return ""
}
