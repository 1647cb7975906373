package fanout

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/resource"
)

// typeMetrics count the responses of one type and variant, and the answers of clients. They are
// updated for every response and every ACK, so they are plain numbers that are read when metrics
// are.
type typeMetrics struct {
	// Fixed after construction.
	key      typeKey
	labels   metric.MeasurementOption
	outcomes [outcomes]metric.MeasurementOption
	ackTime  metric.Float64Histogram
	timed    []metric.RecordOption

	propagation, building metric.Float64Histogram

	responses, bytes  atomic.Int64
	compressed, saved atomic.Int64 // compressed responses, and bytes saved
	oversized         atomic.Int64
	busy              atomic.Int64 // ns in sends that could not block
	answers           [outcomes]atomic.Int64
}

// The answers of clients.
const (
	outcomeACK = iota
	outcomeNACK
	outcomeStale
	outcomes
)

// of returns the metrics of a type. Unknown types share one entry.
func (m *serverMetrics) of(t *resource.Type, f form) *typeMetrics {
	k := typeKey{resource.TypeLabel(t.URL), f.delta, f.relay}
	if tm, ok := m.types.Load(k); ok {
		return tm.(*typeMetrics)
	}
	set := func(more ...attribute.KeyValue) metric.MeasurementOption {
		more = append(more, attribute.String("type", k.label), f.variant())
		return metric.WithAttributeSet(attribute.NewSet(more...))
	}
	tm := &typeMetrics{key: k, labels: set(), ackTime: m.ackTime, timed: []metric.RecordOption{set()}, propagation: m.propagation, building: m.building}
	for i, outcome := range [outcomes]string{"ack", "nack", "stale"} {
		tm.outcomes[i] = set(attribute.String("outcome", outcome))
	}
	first, _ := m.types.LoadOrStore(k, tm)
	return first.(*typeMetrics)
}

// observeTypes registers the metrics of all types.
func (m *serverMetrics) observeTypes(meter metric.Meter) error {
	var errs [8]error
	counter := func(i int, name string, options ...metric.Int64ObservableCounterOption) (c metric.Int64ObservableCounter) {
		c, errs[i] = meter.Int64ObservableCounter("xdsrelay.downstream."+name, options...)
		return c
	}
	responses := counter(0, "responses", metric.WithDescription("Responses sent to clients."))
	bytes := counter(1, "sent", metric.WithUnit("By"), metric.WithDescription("Bytes of responses sent to clients."))
	compressed := counter(2, "compressed_responses", metric.WithDescription("Compressed responses sent to clients."))
	saved := counter(3, "compression.saved", metric.WithUnit("By"), metric.WithDescription("Bytes of responses that compression saved."))
	oversize := counter(4, "oversize_responses", metric.WithDescription("Responses above limits.max_response_size that could not be divided."))
	answers := counter(5, "acknowledgments", metric.WithDescription("Client answers to responses: ack, nack, or stale (the client answered a response that is not the newest)."))
	busy, err := meter.Float64ObservableCounter("xdsrelay.downstream.send.time", metric.WithUnit("s"), metric.WithDescription("Time spent in sends to the transport that could not block."))
	errs[7] = err
	_, errs[6] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observe := func(c metric.Int64Observable, n *atomic.Int64, labels metric.MeasurementOption) {
			if n := n.Load(); n > 0 {
				o.ObserveInt64(c, n, labels)
			}
		}
		m.types.Range(func(_, v any) bool {
			t := v.(*typeMetrics)
			observe(responses, &t.responses, t.labels)
			observe(bytes, &t.bytes, t.labels)
			observe(compressed, &t.compressed, t.labels)
			observe(saved, &t.saved, t.labels)
			observe(oversize, &t.oversized, t.labels)
			o.ObserveFloat64(busy, time.Duration(t.busy.Load()).Seconds(), t.labels)
			for i := range t.answers {
				observe(answers, &t.answers[i], t.outcomes[i])
			}
			return true
		})
		return nil
	}, responses, bytes, compressed, saved, oversize, answers, busy)
	return errors.Join(errs[:]...)
}

// sent counts a response of size bytes; compression saved saved bytes.
func (t *typeMetrics) sent(size, saved int) {
	t.responses.Add(1)
	t.bytes.Add(int64(size))
	if saved > 0 {
		t.compressed.Add(1)
		t.saved.Add(int64(saved))
	}
}

// The ctx of these may have the trace of what is counted; histograms show it as an exemplar.

// ack counts an ACK, after the time since the response was sent.
func (t *typeMetrics) ack(ctx context.Context, after time.Duration) {
	t.answers[outcomeACK].Add(1)
	t.ackTime.Record(ctx, after.Seconds(), t.timed...)
}

// propagated records the time from storing an update to its ACK.
func (t *typeMetrics) propagated(ctx context.Context, after time.Duration) {
	t.propagation.Record(ctx, max(0, after.Seconds()), t.timed...)
}

// built records how long making a body took.
func (t *typeMetrics) built(ctx context.Context, took time.Duration) {
	t.building.Record(ctx, took.Seconds(), t.timed...)
}

func (t *typeMetrics) nack()     { t.answers[outcomeNACK].Add(1) }
func (t *typeMetrics) stale()    { t.answers[outcomeStale].Add(1) }
func (t *typeMetrics) oversize() { t.oversized.Add(1) }
