package upstream

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/resource"
)

// metrics count by type URL, variant and outcome, never by key. All methods are safe for concurrent
// use.
type metrics struct {
	streams     metric.Int64UpDownCounter
	quarantined metric.Int64UpDownCounter
	reconnects  metric.Int64Counter
	responses   metric.Int64Counter
	bytes       metric.Int64Counter
	load        *loadMetrics
	requests    metric.Int64Counter
	sent        metric.Int64Counter
	shed        metric.Int64Counter
	age         metric.Registration // nil for other nodes, since these change

	last atomic.Int64 // when the last response arrived, or metrics were created, in ns since 1970

	variant metric.MeasurementOption
	byType  map[label]metric.MeasurementOption // created once: they are expensive
}

type label struct {
	typ     string // see resource.TypeLabel
	outcome outcome
}

// outcome is how a response was answered.
type outcome string

const (
	outcomeAck         outcome = "ack"
	outcomeNack        outcome = "nack"
	outcomeUnrequested outcome = "unrequested" // C10
)

func newMetrics(cfg *ControlPlaneConfig) (*metrics, error) {
	meter := cfg.Meter
	common := originLabel(cfg.Name, attribute.String("variant", "sotw"))
	if cfg.Delta {
		common = originLabel(cfg.Name, attribute.String("variant", "delta"))
	}
	m := &metrics{
		variant: metric.WithAttributeSet(attribute.NewSet(common...)),
		byType:  make(map[label]metric.MeasurementOption),
	}
	for _, name := range resource.TypeLabels() {
		for _, o := range []outcome{outcomeAck, outcomeNack, outcomeUnrequested} {
			all := append(slices.Clone(common), attribute.String("type", name), attribute.String("outcome", string(o)))
			m.byType[label{name, o}] = metric.WithAttributeSet(attribute.NewSet(all...))
		}
	}
	var err error
	if m.load, err = newLoadMetrics(meter); err != nil {
		return nil, err
	}
	if m.streams, err = meter.Int64UpDownCounter("xdsrelay.upstream.streams",
		metric.WithDescription("Streams to control planes that are up.")); err != nil {
		return nil, err
	}
	if m.quarantined, err = meter.Int64UpDownCounter("xdsrelay.upstream.types.apart",
		metric.WithDescription("Types that keys ask for on a stream of their own, since the control plane ended one on which it was asked for them.")); err != nil {
		return nil, err
	}
	if m.reconnects, err = meter.Int64Counter("xdsrelay.upstream.reconnects",
		metric.WithDescription("Attempts to open a stream after the first of its key.")); err != nil {
		return nil, err
	}
	if m.responses, err = meter.Int64Counter("xdsrelay.upstream.responses",
		metric.WithDescription("Responses of control planes, by how they were answered.")); err != nil {
		return nil, err
	}
	if m.requests, err = meter.Int64Counter("xdsrelay.upstream.requests",
		metric.WithDescription("Requests to control planes: subscriptions and answers.")); err != nil {
		return nil, err
	}
	if m.sent, err = meter.Int64Counter("xdsrelay.upstream.request.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes of requests to control planes, uncompressed.")); err != nil {
		return nil, err
	}
	if m.shed, err = meter.Int64Counter("xdsrelay.upstream.names.shed",
		metric.WithDescription("Names that keys stopped asking for, because the control plane accepts no request with all names of the key.")); err != nil {
		return nil, err
	}
	m.shedNames(0) // exports the counter with 0
	m.last.Store(time.Now().UnixNano())
	if cfg.Peer == "" {
		m.addQuarantined(0) // exports the counter with 0
		if err := m.observeAge(meter, cfg.Name); err != nil {
			return nil, err
		}
	}
	m.bytes, err = meter.Int64Counter("xdsrelay.upstream.response.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes of responses of control planes, uncompressed."))
	return m, err
}

// observeAge creates the metric of the time since the last response.
func (m *metrics) observeAge(meter metric.Meter, origin string) error {
	age, err := meter.Float64ObservableGauge("xdsrelay.upstream.response.age", metric.WithUnit("s"),
		metric.WithDescription("How long ago the last response of a control plane came, whichever key and type it was for; since the start if none has."))
	if err != nil {
		return err
	}
	with := metric.WithAttributes(originLabel(origin)...)
	m.age, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(age, time.Since(time.Unix(0, m.last.Load())).Seconds(), with)
		return nil
	}, age)
	return err
}

// close unregisters the callback.
func (m *metrics) close() {
	if m.age != nil {
		_ = m.age.Unregister() // fails only if it was unregistered before
	}
}

// request counts a request of a size in bytes.
func (m *metrics) request(size int) {
	m.requests.Add(context.Background(), 1, m.variant)
	m.sent.Add(context.Background(), int64(size), m.variant)
}

// originLabel returns the attributes of a metric, with the name of the origin if it has one.
func originLabel(name string, attributes ...attribute.KeyValue) []attribute.KeyValue {
	if name != "" {
		attributes = append(attributes, attribute.String("origin", name))
	}
	return attributes
}

func (m *metrics) stream(n int64) { m.streams.Add(context.Background(), n, m.variant) }

func (m *metrics) addQuarantined(n int64) { m.quarantined.Add(context.Background(), n, m.variant) }

func (m *metrics) shedNames(n int) { m.shed.Add(context.Background(), int64(n), m.variant) }

func (m *metrics) reconnect() { m.reconnects.Add(context.Background(), 1, m.variant) }

func (m *metrics) response(r *resource.Response, o outcome) {
	m.last.Store(time.Now().UnixNano())
	with := m.byType[label{resource.TypeLabel(r.Type.URL), o}]
	m.responses.Add(context.Background(), 1, with)
	m.bytes.Add(context.Background(), int64(r.Size), with)
}
