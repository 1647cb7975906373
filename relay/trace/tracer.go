package trace

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Config says what is traced. It is not changed after [New].
type Config struct {
	// Spans makes the spans, and decides which updates are traced. Required.
	Spans oteltrace.Tracer
	// Clients is how many clients of an update get a span of their own, at most 16.
	// 0 means none.
	Clients int
	// Timeout is how long an update may take until it counts as over, complete or
	// not. Default 30 s.
	Timeout time.Duration
	// InFlight bounds the updates that are traced at the same time: beyond that, the
	// oldest counts as over. Default 256.
	InFlight int
}

// Tracer follows updates. All methods are safe for concurrent use, and nil is a Tracer
// that follows none.
type Tracer struct {
	// Fixed after construction.
	cfg  Config
	done chan struct{} // of one: some update is over
	end  chan struct{}
	once sync.Once // guards end
	work sync.WaitGroup

	live atomic.Int64 // updates in flight

	mu sync.Mutex
	// Guarded by mu.
	flying []*Update // until they are over; oldest first
	over   []*Update // below spans of other nodes, which may ask for them; oldest first
	ask    Ask       // nil where there are no other nodes

	// Owned by run, and after its end by Close.
	waiting []*Update // over here, until other nodes have all answers; oldest first
}

// New starts a Tracer; [Tracer.Close] ends it.
func New(cfg Config) *Tracer {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.InFlight <= 0 {
		cfg.InFlight = 256
	}
	cfg.Clients = min(max(cfg.Clients, 0), maxClients)
	t := &Tracer{cfg: cfg, done: make(chan struct{}, 1), end: make(chan struct{})}
	t.work.Go(t.run)
	return t
}

// Close ends all updates, as far as they have come. It may be called again.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.end) })
	t.work.Wait()
	for _, u := range t.those(func(*Update) bool { return true }) {
		u.finish(closed)
		t.take(u)
	}
	for _, u := range t.waiting {
		t.emit(u, Part{Incomplete: true}, time.Now())
	}
	t.waiting = nil
}

// Live reports whether any update is being followed. It costs an atomic load.
func (t *Tracer) Live() bool { return t != nil && t.live.Load() > 0 }

// run makes the spans of updates that are over, and ends those that take too long.
func (t *Tracer) run() {
	look := time.NewTicker(t.cfg.Timeout / 8)
	defer look.Stop()
	pause := time.NewTimer(partPause)
	defer pause.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answers, asking := make(chan map[string]Part, 1), false
	for {
		select {
		case <-t.done:
			for _, u := range t.those(func(u *Update) bool { return !u.Flying() }) {
				t.take(u)
			}
			if len(t.waiting) > 0 && !asking {
				asking = true
				pause.Reset(partPause)
			}
		case <-pause.C:
			if len(t.waiting) > 0 {
				asking = true
				t.question(ctx, answers)
			}
		case all := <-answers:
			t.answered(all, time.Now())
			if asking = len(t.waiting) > 0; asking {
				pause.Reset(partPause)
			}
		case now := <-look.C:
			late := now.Add(-t.cfg.Timeout)
			for _, u := range t.those(func(u *Update) bool { return u.source.Received.Before(late) }) {
				u.finish(timedOut)
				t.take(u)
			}
		case <-t.end:
			return
		}
	}
}

// those are the updates in flight, or over without their spans, of which is is true.
func (t *Tracer) those(is func(*Update) bool) (some []*Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.flying {
		if is(u) {
			some = append(some, u)
		}
	}
	return some
}

// Source is where an update came from.
type Source struct {
	// Type is the type's label, Key the aggregation key, and Version what the origin
	// calls it, which may be empty.
	Type, Key, Version string
	// Received is when it came, and Began when it began to be applied.
	Received, Began time.Time
	// Parent is the trace context that came with it, from another node; empty if it
	// came from an origin.
	Parent string
}

// Start begins an update that has been applied, with so many changes, and of which so
// many clients are to be told. It returns nil where that is not traced. Nobody else may
// know of the update yet.
func (t *Tracer) Start(s Source, changes, clients int) *Update {
	if t == nil {
		return nil
	}
	ctx, span := t.cfg.Spans.Start(contextOf(s.Parent), "update", oteltrace.WithTimestamp(s.Received),
		oteltrace.WithSpanKind(oteltrace.SpanKindConsumer), oteltrace.WithAttributes(attribute.String("xds.type", s.Type)))
	if !span.IsRecording() || !span.SpanContext().IsSampled() {
		span.End()
		return nil
	}
	u := &Update{tracer: t, source: s, above: spanOf(contextOf(s.Parent)), ctx: ctx, span: span, changes: changes, clients: int64(clients), applied: time.Now()}
	if t.cfg.Clients > 0 {
		u.stride = max(1, int64(clients)/int64(t.cfg.Clients))
	}
	t.mu.Lock()
	t.flying = append(t.flying, u)
	var oldest *Update
	if n := len(t.flying) - t.cfg.InFlight; n > 0 {
		oldest = t.flying[n-1] // those before it were over in their turn, and wait for their spans
	}
	t.mu.Unlock()
	t.live.Add(1)
	if oldest != nil {
		oldest.close(evicted)
	}
	if clients == 0 {
		u.close(complete)
	}
	return u
}

// forget takes u out of those in flight, and reports whether it was there.
func (t *Tracer) forget(u *Update) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.flying, u)
	if i < 0 {
		return false
	}
	t.flying = slices.Delete(t.flying, i, i+1)
	if u.above != "" {
		t.over = append(t.over[max(0, len(t.over)-t.cfg.InFlight+1):], u)
	}
	t.live.Add(-1)
	return true
}

// Below makes a span of something that is over below a trace context, if that is one
// and its trace is sampled. It points to an update that has to do with it but belongs to
// another trace; nil for none.
func (t *Tracer) Below(parent, name string, also *Update, from, to time.Time, about ...attribute.KeyValue) {
	if t == nil {
		return
	}
	ctx := contextOf(parent)
	of := oteltrace.SpanContextFromContext(ctx)
	if !of.IsSampled() {
		return
	}
	if to.Before(from) {
		to = from
	}
	options := []oteltrace.SpanStartOption{oteltrace.WithTimestamp(from), oteltrace.WithAttributes(about...)}
	if also != nil && also.span.SpanContext().TraceID() != of.TraceID() {
		options = append(options, oteltrace.WithLinks(oteltrace.Link{SpanContext: also.span.SpanContext()}))
	}
	_, span := t.cfg.Spans.Start(ctx, name, options...)
	span.End(oteltrace.WithTimestamp(to))
}

// Begin begins a span of something short that is no update, such as an attempt to
// connect. end ends it, with an error unless that is nil; text is the error's without
// what is secret.
func (t *Tracer) Begin(name string, about ...attribute.KeyValue) (end func(text string)) {
	if t == nil {
		return func(string) {}
	}
	//nolint:spancheck // end ends it
	_, span := t.cfg.Spans.Start(context.Background(), name, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(about...))
	//nolint:spancheck // as above
	return func(text string) {
		if text != "" {
			span.SetStatus(codes.Error, text)
		}
		span.End()
	}
}

// Trace context travels as W3C has it.
const header = "traceparent"

// contextOf is the trace context that a text stands for; what is malformed is none.
func contextOf(text string) context.Context {
	if text == "" {
		return context.Background()
	}
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: text})
}

// Valid reports whether a text is a trace context of this form: W3C's traceparent, of
// the one length that its version 00 has.
func Valid(text string) bool {
	return len(text) == 55 && oteltrace.SpanContextFromContext(contextOf(text)).IsValid()
}

// textOf is the opposite of contextOf.
func textOf(ctx context.Context) string {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[header]
}
