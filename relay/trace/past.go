package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// Past is something that is over, and gets a span.
type Past struct {
	Name     string
	From, To time.Time
	About    []attribute.KeyValue
	// Failed is why it has failed, without what is secret; empty if it has not.
	Failed  string
	Moments []Moment
	// Parts are below it.
	Parts []Past
}

// Moment is an event of a span.
type Moment struct {
	Name  string
	At    time.Time
	About []attribute.KeyValue
}

// Record makes a trace of something that is over. It does not block.
func (t *Tracer) Record(p *Past) {
	if t != nil {
		t.record(context.Background(), p)
	}
}

func (t *Tracer) record(above context.Context, p *Past) {
	ctx, span := t.cfg.Spans.Start(above, p.Name, oteltrace.WithTimestamp(p.From), oteltrace.WithAttributes(p.About...))
	defer span.End(oteltrace.WithTimestamp(p.To))
	if !span.IsRecording() {
		return
	}
	for _, m := range p.Moments {
		span.AddEvent(m.Name, oteltrace.WithTimestamp(m.At), oteltrace.WithAttributes(m.About...))
	}
	if p.Failed != "" {
		span.SetStatus(codes.Error, p.Failed)
	}
	for i := range p.Parts {
		t.record(ctx, &p.Parts[i])
	}
}
