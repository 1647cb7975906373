package fanout

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/resource"
)

// serverMetrics count by type URL, variant and outcome, never by node, key or name: those are on
// the admin endpoints.
type serverMetrics struct {
	streams        metric.Int64UpDownCounter
	rejections     *rejection.Counter
	waits          metric.Int64Counter
	drainedStreams metric.Int64Counter
	ackTime        metric.Float64Histogram

	propagation, building metric.Float64Histogram

	requests, bytesIn [variants]atomic.Int64

	types sync.Map // typeKey → *typeMetrics
	kinds sync.Map // typeKey → metric.MeasurementOption, of streams
}

type typeKey struct {
	label        string
	delta, relay bool
}

func newServerMetrics(m metric.Meter, s *Server) (*serverMetrics, error) {
	var errs [13]error
	var sm serverMetrics
	sm.streams, errs[0] = m.Int64UpDownCounter("xdsrelay.downstream.streams", metric.WithDescription("Open client streams."))
	sm.rejections, errs[1] = rejection.New(m)
	sm.ackTime, errs[2] = m.Float64Histogram("xdsrelay.downstream.ack.duration", metric.WithUnit("s"), metric.WithDescription("Time from sending a response to its ACK."))
	var built, shared, packed metric.Int64ObservableCounter
	built, errs[3] = m.Int64ObservableCounter("xdsrelay.downstream.bodies.built", metric.WithDescription("Response bodies encoded."))
	shared, errs[4] = m.Int64ObservableCounter("xdsrelay.downstream.bodies.reused", metric.WithDescription("Responses that reused an encoded body."))
	packed, errs[5] = m.Int64ObservableCounter("xdsrelay.downstream.bodies.compressed", metric.WithDescription("Response bodies compressed, each once for all clients that share it."))
	_, errs[6] = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(built, int64(s.bodies.Built()))
		o.ObserveInt64(shared, int64(s.bodies.Shared()))
		o.ObserveInt64(packed, int64(s.packed.Load()))
		return nil
	}, built, shared, packed)
	errs[7] = sm.observeTypes(m)
	sm.waits, errs[8] = m.Int64Counter("xdsrelay.tier.head.waits", metric.WithDescription("Waits of reconnecting clients that held newer content than this node, by how the wait ended: caught_up or timed_out."))
	sm.drainedStreams, errs[9] = m.Int64Counter("xdsrelay.downstream.drained_streams", metric.WithDescription("Client streams that the node drained so that the client reconnects: rebalanced to another node, the connection reached its maximum age (max_age), or an operator moved clients of former aggregation rules (former_rules)."))
	sm.propagation, errs[10] = m.Float64Histogram("xdsrelay.downstream.propagation.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from storing an upstream update to its ACK by a client, for the oldest update that the ACK covers. The first content of a client does not count, since it can have any age."))
	sm.building, errs[11] = m.Float64Histogram("xdsrelay.downstream.body.build.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to build a response body: find what changed and encode it. Bounds: 10 µs to 1 s."),
		metric.WithExplicitBucketBoundaries(.00001, .00005, .0001, .0005, .001, .005, .01, .05, .1, .5, 1))
	errs[12] = errors.Join(sm.observeStreams(m, s), sm.observeRequests(m))
	return &sm, errors.Join(errs[:]...)
}

// variant reads only what is fixed: what is known with the first request may be written meanwhile.
func (f *form) variant() attribute.KeyValue {
	if f.relay {
		return attribute.String("variant", "peer")
	}
	return variant(f.delta)
}

func variant(delta bool) attribute.KeyValue {
	if delta {
		return attribute.String("variant", "delta")
	}
	return attribute.String("variant", "sotw")
}

// service returns the service of a stream as a label: ADS, or the service of one type.
func (s *stream) service() string {
	switch {
	case s.only != nil:
		return resource.TypeLabel(s.only.URL)
	case s.v2:
		return "ads_v2"
	}
	return "ads"
}

func (m *serverMetrics) opened(st *stream) {
	m.streams.Add(context.Background(), 1, m.kindOf(st))
}

func (m *serverMetrics) closed(st *stream) {
	m.streams.Add(context.Background(), -1, m.kindOf(st))
}

// kindOf returns the attributes of a stream, made once for all streams of its kind: making a set
// takes 4 KB of stack, which the goroutine of an idle stream would keep.
func (m *serverMetrics) kindOf(st *stream) metric.MeasurementOption {
	k := typeKey{st.service(), st.delta, st.relay}
	option, ok := m.kinds.Load(k)
	if !ok {
		set := attribute.NewSet(st.variant(), attribute.String("service", k.label))
		option, _ = m.kinds.LoadOrStore(k, metric.WithAttributeSet(set))
	}
	return option.(metric.MeasurementOption)
}

// The variants, as array indexes.
const (
	variantSotW = iota
	variantDelta
	variantPeer
	variants
)

// received counts a request of size bytes.
func (m *serverMetrics) received(f form, size int) {
	i := variantSotW
	switch {
	case f.relay:
		i = variantPeer
	case f.delta:
		i = variantDelta
	}
	m.requests[i].Add(1)
	m.bytesIn[i].Add(int64(size))
}

// observeRequests registers the metrics of requests.
func (m *serverMetrics) observeRequests(meter metric.Meter) error {
	requests, err := meter.Int64ObservableCounter("xdsrelay.downstream.requests", metric.WithDescription("Client requests: subscriptions, ACKs and NACKs."))
	bytes, err2 := meter.Int64ObservableCounter("xdsrelay.downstream.received", metric.WithUnit("By"), metric.WithDescription("Bytes of client requests."))
	_, err3 := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for i, name := range [variants]string{"sotw", "delta", "peer"} {
			with := metric.WithAttributeSet(attribute.NewSet(attribute.String("variant", name)))
			o.ObserveInt64(requests, m.requests[i].Load(), with)
			o.ObserveInt64(bytes, m.bytesIn[i].Load(), with)
		}
		return nil
	}, requests, bytes)
	return errors.Join(err, err2, err3)
}

// waited counts a wait for this node to catch up with the tier; see behind.go.
func (m *serverMetrics) waited(caughtUp bool) {
	outcome := "timed_out"
	if caughtUp {
		outcome = "caught_up"
	}
	m.waits.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}
