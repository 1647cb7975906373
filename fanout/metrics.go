package fanout

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/resource"
)

// serverMetrics counts by type URL, variant and outcome, never by node, key or
// name: those belong to the debug pages.
type serverMetrics struct {
	streams   metric.Int64UpDownCounter
	refusals  metric.Int64Counter
	timeouts  metric.Int64Counter
	oversize  metric.Int64Counter
	responses metric.Int64Counter
	bytes     metric.Int64Counter
	outcomes  metric.Int64Counter
	ackTime   metric.Float64Histogram
	// Of the responses above, those that were compressed, and what that saved.
	compressed metric.Int64Counter
	saved      metric.Int64Counter

	types sync.Map // typeKey → *typeMetrics
	kinds sync.Map // typeKey → metric.MeasurementOption, of streams
}

type typeKey struct {
	label string
	delta bool
}

func newServerMetrics(m metric.Meter, s *Server) (*serverMetrics, error) {
	var errs [13]error
	var sm serverMetrics
	sm.streams, errs[0] = m.Int64UpDownCounter("xdsrelay.downstream.streams", metric.WithDescription("Open client streams."))
	sm.refusals, errs[1] = m.Int64Counter("xdsrelay.downstream.refusals", metric.WithDescription("Streams ended because of what the client asked for."))
	sm.timeouts, errs[2] = m.Int64Counter("xdsrelay.downstream.send_timeouts", metric.WithDescription("Streams ended because the client did not read."))
	sm.responses, errs[3] = m.Int64Counter("xdsrelay.downstream.responses", metric.WithDescription("Responses sent to clients."))
	sm.bytes, errs[4] = m.Int64Counter("xdsrelay.downstream.sent", metric.WithUnit("By"), metric.WithDescription("Bytes of responses sent to clients."))
	sm.outcomes, errs[5] = m.Int64Counter("xdsrelay.downstream.answers", metric.WithDescription("What clients answered: ack, nack or stale."))
	sm.ackTime, errs[6] = m.Float64Histogram("xdsrelay.downstream.ack.duration", metric.WithUnit("s"), metric.WithDescription("From sending a response to its ACK."))
	var built, shared metric.Int64ObservableCounter
	built, errs[7] = m.Int64ObservableCounter("xdsrelay.downstream.bodies.built", metric.WithDescription("Response bodies encoded."))
	shared, errs[8] = m.Int64ObservableCounter("xdsrelay.downstream.bodies.shared", metric.WithDescription("Responses that reused an encoded body."))
	sm.oversize, errs[9] = m.Int64Counter("xdsrelay.downstream.oversize", metric.WithDescription("Responses larger than clients accept that could not be divided."))
	sm.compressed, errs[10] = m.Int64Counter("xdsrelay.downstream.compressed", metric.WithDescription("Responses sent to clients that were compressed."))
	sm.saved, errs[11] = m.Int64Counter("xdsrelay.downstream.saved", metric.WithUnit("By"), metric.WithDescription("Bytes by which responses were smaller because they were compressed."))
	var packed metric.Int64ObservableCounter
	packed, errs[12] = m.Int64ObservableCounter("xdsrelay.downstream.bodies.compressed", metric.WithDescription("Response bodies compressed, each for all clients that share it."))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(built, int64(s.bodies.Built()))
		o.ObserveInt64(shared, int64(s.bodies.Shared()))
		o.ObserveInt64(packed, int64(s.packed.Load()))
		return nil
	}, built, shared, packed)
	return &sm, err
}

func variant(delta bool) attribute.KeyValue {
	if delta {
		return attribute.String("variant", "delta")
	}
	return attribute.String("variant", "sotw")
}

// service is what a stream is on, as a label: ADS, or the service of one type.
func (s *stream) service() string {
	switch {
	case s.only != nil:
		return typeLabel(s.only.URL)
	case s.v2:
		return "ads-v2"
	}
	return "ads"
}

// typeLabel is a type URL as a label: those of table A-1 by message name, and
// all others as one, since clients may invent them.
func typeLabel(url string) string {
	if resource.IsKnown(url) {
		return strings.TrimPrefix(url, resource.TypePrefix)
	}
	return "other"
}

func (m *serverMetrics) opened(st *stream) {
	m.streams.Add(context.Background(), 1, m.kindOf(st))
}

func (m *serverMetrics) closed(st *stream) {
	m.streams.Add(context.Background(), -1, m.kindOf(st))
}

// kindOf returns the attributes of a stream, made once for all of its kind:
// making a set takes 4 KB of stack, which the goroutine of an idle stream
// would keep.
func (m *serverMetrics) kindOf(st *stream) metric.MeasurementOption {
	k := typeKey{st.service(), st.delta}
	option, ok := m.kinds.Load(k)
	if !ok {
		set := attribute.NewSet(variant(st.delta), attribute.String("service", k.label))
		option, _ = m.kinds.LoadOrStore(k, metric.WithAttributeSet(set))
	}
	return option.(metric.MeasurementOption)
}

func (m *serverMetrics) refused(code codes.Code) {
	m.refusals.Add(context.Background(), 1, metric.WithAttributes(attribute.String("code", code.String())))
}

func (m *serverMetrics) sendTimeout() { m.timeouts.Add(context.Background(), 1) }

// typeMetrics are the metrics of one type and variant, with their attributes
// made beforehand: they are counted for every response and every ACK.
type typeMetrics struct {
	m                      *serverMetrics
	base, acks, nacks, old []metric.AddOption
	timed                  []metric.RecordOption
}

// of returns the metrics of a type. Unknown types share one entry.
func (m *serverMetrics) of(t *resource.Type, delta bool) *typeMetrics {
	k := typeKey{typeLabel(t.URL), delta}
	if tm, ok := m.types.Load(k); ok {
		return tm.(*typeMetrics)
	}
	set := func(outcome string) metric.MeasurementOption {
		attrs := []attribute.KeyValue{attribute.String("type", k.label), variant(delta)}
		if outcome != "" {
			attrs = append(attrs, attribute.String("outcome", outcome))
		}
		return metric.WithAttributeSet(attribute.NewSet(attrs...))
	}
	with := func(outcome string) []metric.AddOption { return []metric.AddOption{set(outcome)} }
	tm, _ := m.types.LoadOrStore(k, &typeMetrics{
		m: m, base: with(""), acks: with("ack"), nacks: with("nack"), old: with("stale"), timed: []metric.RecordOption{set("")},
	})
	return tm.(*typeMetrics)
}

// sent counts a response of so many bytes, which compression has saved so many of.
func (t *typeMetrics) sent(size, saved int) {
	t.m.responses.Add(context.Background(), 1, t.base...)
	t.m.bytes.Add(context.Background(), int64(size), t.base...)
	if saved > 0 {
		t.m.compressed.Add(context.Background(), 1, t.base...)
		t.m.saved.Add(context.Background(), int64(saved), t.base...)
	}
}

func (t *typeMetrics) ack(after time.Duration) {
	t.m.outcomes.Add(context.Background(), 1, t.acks...)
	t.m.ackTime.Record(context.Background(), after.Seconds(), t.timed...)
}

func (t *typeMetrics) nack()     { t.m.outcomes.Add(context.Background(), 1, t.nacks...) }
func (t *typeMetrics) stale()    { t.m.outcomes.Add(context.Background(), 1, t.old...) }
func (t *typeMetrics) oversize() { t.m.oversize.Add(context.Background(), 1, t.base...) }
