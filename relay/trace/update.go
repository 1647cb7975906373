package trace

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// maxClients bounds Config.Clients.
const maxClients = 16

// Update is one that is being followed. All methods are safe for concurrent use, do
// nothing on nil, and cost a few atomic operations.
type Update struct {
	// Fixed after construction.
	tracer  *Tracer
	source  Source
	above   string          // the id of the span above, of another node; empty for none
	ctx     context.Context // holds the span
	span    oteltrace.Span
	changes int
	clients int64
	stride  int64 // every how many sends a client gets a span; 0 for none
	applied time.Time

	sent, peers, acked, nacked, left atomic.Int64
	firstSent, lastSent, lastAnswer  atomic.Int64 // in ns since 1970; 0 for never
	rejected                         atomic.Pointer[string]
	state                            atomic.Int32
	picks                            [maxClients]atomic.Pointer[pick]
}

// The states of an update: in flight, or why it is over.
const (
	flying int32 = iota
	complete
	timedOut
	evicted
	closed
)

// pick is a client that gets a span of its own.
type pick struct {
	client   any
	id       string
	variant  string
	sent     time.Time
	answered atomic.Int64 // in ns since 1970; 0 for not yet
	accepted atomic.Bool
	rejected atomic.Pointer[string] // why; nil if it did not
}

// Client is who is sent an update.
type Client struct {
	// Ref tells it from others; it is only compared.
	Ref any
	// ID is the id of its node, or the name if it is a node of the tier (Peer).
	ID, Variant string
	Peer        bool
}

// Sent notes that the update was sent to a client.
func (u *Update) Sent(to Client, now time.Time) {
	if u == nil || u.state.Load() != flying {
		return
	}
	n := u.sent.Add(1) - 1
	at := now.UnixNano()
	u.firstSent.CompareAndSwap(0, at)
	u.lastSent.Store(at)
	if to.Peer {
		u.peers.Add(1)
	}
	if u.stride == 0 || n%u.stride != 0 {
		return
	}
	if i := n / u.stride; i < int64(u.tracer.cfg.Clients) {
		u.picks[i].Store(&pick{client: to.Ref, id: to.ID, variant: to.Variant, sent: now})
	}
}

// Answered notes what a client says of it. why is what it says against it, without what
// is secret.
func (u *Update) Answered(ref any, accepted bool, why string, now time.Time) {
	if u == nil || u.state.Load() != flying {
		return
	}
	u.lastAnswer.Store(now.UnixNano())
	for i := range u.tracer.cfg.Clients {
		if p := u.picks[i].Load(); p != nil && p.client == ref {
			p.accepted.Store(accepted)
			if !accepted {
				p.reject(why)
			}
			p.answered.Store(now.UnixNano())
			break
		}
	}
	if accepted {
		u.acked.Add(1)
	} else {
		u.reject(why)
	}
	u.check()
}

// reject is apart so that only who rejects makes a copy of why.
func (u *Update) reject(why string) {
	u.rejected.CompareAndSwap(nil, &why)
	u.nacked.Add(1)
}

func (p *pick) reject(why string) { p.rejected.Store(&why) }

// Left notes that a client need not be told, or has gone.
func (u *Update) Left() {
	if u == nil || u.state.Load() != flying {
		return
	}
	u.left.Add(1)
	u.check()
}

// check ends the update once everybody has answered.
func (u *Update) check() {
	if u.acked.Load()+u.nacked.Load()+u.left.Load() >= u.clients {
		u.close(complete)
	}
}

// finish notes why the update is over, and reports whether it was not before.
func (u *Update) finish(why int32) bool { return u.state.CompareAndSwap(flying, why) }

// close ends the update, whose spans are made elsewhere.
func (u *Update) close(why int32) {
	if !u.finish(why) {
		return
	}
	select {
	case u.tracer.done <- struct{}{}:
	default: // which is known
	}
}

// Context holds the update's span, for logs and exemplars; nil is the background.
func (u *Update) Context() context.Context {
	if u == nil {
		return context.Background()
	}
	return u.ctx
}

// TraceID is the id of the update's trace; nil for nil.
func (u *Update) TraceID() *[16]byte {
	if u == nil {
		return nil
	}
	id := [16]byte(u.span.SpanContext().TraceID())
	return &id
}

// Parent is the trace context for others, empty for nil.
func (u *Update) Parent() string {
	if u == nil {
		return ""
	}
	return textOf(u.ctx)
}

// Flying reports whether the update is still followed.
func (u *Update) Flying() bool { return u != nil && u.state.Load() == flying }

// take makes the spans of an update that is over, unless other nodes have to be asked
// before.
func (t *Tracer) take(u *Update) {
	if !t.forget(u) {
		return
	}
	if !t.asks(u) {
		t.emit(u, Part{}, time.Time{})
		return
	}
	if len(t.waiting) >= t.cfg.InFlight {
		t.emit(t.waiting[0], Part{Incomplete: true}, time.Now())
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
	t.waiting = append(t.waiting, u)
}

// emit makes the spans of an update that is over. elsewhere is what other nodes had below
// it at a moment.
func (t *Tracer) emit(u *Update, elsewhere Part, at time.Time) {
	last := u.applied
	stage := func(name, rejected string, from, to time.Time, about ...attribute.KeyValue) {
		if from.IsZero() || to.IsZero() {
			return
		}
		if to.Before(from) {
			to = from
		}
		if to.After(last) {
			last = to
		}
		_, span := t.cfg.Spans.Start(u.ctx, name, oteltrace.WithTimestamp(from), oteltrace.WithAttributes(about...))
		if rejected != "" {
			span.SetStatus(codes.Error, rejected)
		}
		span.End(oteltrace.WithTimestamp(to))
	}
	first, sent, answered := moment(&u.firstSent), moment(&u.lastSent), moment(&u.lastAnswer)
	why := u.why()
	stage("apply", "", u.source.Began, u.applied)
	stage("first send", "", u.applied, first)
	stage("send", "", first, sent, attribute.Int64("xds.sent", u.sent.Load()))
	stage("answer", why, first, answered, attribute.Int64("xds.acks", u.acked.Load()), attribute.Int64("xds.nacks", u.nacked.Load()))
	for i := range t.cfg.Clients {
		p := u.picks[i].Load()
		if p == nil {
			continue
		}
		outcome, rejected, to := "nack", p.why(), moment(&p.answered)
		switch {
		case to.IsZero():
			outcome, rejected, to = "none", "", sent
		case p.accepted.Load():
			outcome, rejected = "ack", ""
		}
		stage("client", rejected, p.sent, to, attribute.String("xds.client", p.id), attribute.String("xds.variant", p.variant), attribute.String("xds.answer", outcome))
	}
	if elsewhere.Span != "" {
		if there := at.Add(-time.Duration(elsewhere.Ago * float64(time.Second))); there.After(last) {
			last = there
		}
		u.span.SetAttributes(attribute.Int64("xds.peers.acks", elsewhere.Acks), attribute.Int64("xds.peers.nacks", elsewhere.Nacks))
		if elsewhere.Nacks > 0 && why == "" {
			why = rejectedFor(elsewhere.Why)
		}
	}
	if why != "" {
		u.span.SetStatus(codes.Error, why)
	}
	u.span.SetAttributes(u.attributes(elsewhere.Incomplete)...)
	u.span.End(oteltrace.WithTimestamp(last))
}

// rejectedFor is the status of spans of what a client rejected.
func rejectedFor(why string) string {
	if why == "" {
		return "rejected without a reason"
	}
	return "rejected: " + why
}

// why is the status of the update, empty if nobody here rejected it.
func (u *Update) why() string {
	if why := u.rejected.Load(); why != nil {
		return rejectedFor(*why)
	}
	return ""
}

// why is the status of a client that rejected the update.
func (p *pick) why() string {
	if why := p.rejected.Load(); why != nil {
		return rejectedFor(*why)
	}
	return rejectedFor("")
}

func (u *Update) attributes(elsewhere bool) []attribute.KeyValue {
	state := u.state.Load()
	all := []attribute.KeyValue{
		attribute.String("xdsrelay.key", u.source.Key), attribute.String("xds.version", u.source.Version),
		attribute.Int("xds.changes", u.changes), attribute.Int64("xds.clients", u.clients),
		attribute.String("xds.clients.counted", "at apply, by subscription: approximate"),
		attribute.Int64("xds.peers", u.peers.Load()), attribute.Int64("xds.sent", u.sent.Load()),
		attribute.Int64("xds.acks", u.acked.Load()), attribute.Int64("xds.nacks", u.nacked.Load()),
		attribute.Int64("xds.left", u.left.Load()), attribute.Bool("xds.complete", state == complete && !elsewhere),
	}
	if state == complete && elsewhere {
		all = append(all, attribute.String("xds.incomplete", "on another node"))
	}
	if why := map[int32]string{timedOut: "timeout", evicted: "too many updates in flight", closed: "shutdown"}[state]; why != "" {
		all = append(all, attribute.String("xds.incomplete", why))
	}
	if why := u.rejected.Load(); why != nil {
		all = append(all, attribute.String("xds.nack", *why))
	}
	return all
}

// moment is a time that was noted; zero if none was.
func moment(at *atomic.Int64) time.Time {
	if n := at.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
