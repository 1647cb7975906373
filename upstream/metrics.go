package upstream

import (
	"cmp"
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
	lastSeen    metric.Registration // nil for other nodes, since these change

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
	variant := "sotw"
	switch {
	case cfg.Peer != "":
		variant = "peer"
	case cfg.Delta:
		variant = "delta"
	}
	common := upstreamLabel(cfg.Name, attribute.String("variant", variant))
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
		metric.WithDescription("Open streams to control planes and, with variant peer, to other nodes.")); err != nil {
		return nil, err
	}
	if m.quarantined, err = meter.Int64UpDownCounter("xdsrelay.upstream.quarantined_types",
		metric.WithDescription("Types on a stream of their own, because the control plane ended a stream that subscribed to them; over all keys.")); err != nil {
		return nil, err
	}
	if m.reconnects, err = meter.Int64Counter("xdsrelay.upstream.reconnects",
		metric.WithDescription("Attempts to reopen the stream of a key.")); err != nil {
		return nil, err
	}
	if m.responses, err = meter.Int64Counter("xdsrelay.upstream.responses",
		metric.WithDescription("Responses received, by outcome: ack, nack, or unrequested (the key does not subscribe to the type).")); err != nil {
		return nil, err
	}
	if m.requests, err = meter.Int64Counter("xdsrelay.upstream.requests",
		metric.WithDescription("Requests sent: subscriptions, ACKs and NACKs.")); err != nil {
		return nil, err
	}
	if m.sent, err = meter.Int64Counter("xdsrelay.upstream.sent", metric.WithUnit("By"),
		metric.WithDescription("Bytes of requests sent, uncompressed.")); err != nil {
		return nil, err
	}
	if m.shed, err = meter.Int64Counter("xdsrelay.upstream.shed_names",
		metric.WithDescription("Resource names dropped from subscriptions, because the control plane accepts no request with all names of the key.")); err != nil {
		return nil, err
	}
	m.shedNames(0) // exports the counter with 0
	m.last.Store(time.Now().UnixNano())
	if cfg.Peer == "" {
		m.addQuarantined(0) // exports the counter with 0
		if err := m.observeLast(meter, cfg.Name); err != nil {
			return nil, err
		}
	}
	m.bytes, err = meter.Int64Counter("xdsrelay.upstream.received", metric.WithUnit("By"),
		metric.WithDescription("Bytes of responses received, uncompressed."))
	return m, err
}

// observeLast creates the metric of when the last response arrived.
func (m *metrics) observeLast(meter metric.Meter, upstream string) error {
	last, err := meter.Float64ObservableGauge("xdsrelay.upstream.last_response_timestamp", metric.WithUnit("s"),
		metric.WithDescription("Unix time of the last response of a control plane for any key and type; the start time of the node before the first response."))
	if err != nil {
		return err
	}
	with := metric.WithAttributes(upstreamLabel(upstream)...)
	m.lastSeen, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(last, time.Duration(m.last.Load()).Seconds(), with)
		return nil
	}, last)
	return err
}

// close unregisters the callback.
func (m *metrics) close() {
	if m.lastSeen != nil {
		_ = m.lastSeen.Unregister() // fails only if it was unregistered before
	}
}

// request counts a request of a size in bytes.
func (m *metrics) request(size int) {
	m.requests.Add(context.Background(), 1, m.variant)
	m.sent.Add(context.Background(), int64(size), m.variant)
}

// upstreamLabel adds the name of the upstream to the attributes of a metric.
func upstreamLabel(name string, attributes ...attribute.KeyValue) []attribute.KeyValue {
	return append(attributes, attribute.String("upstream", cmp.Or(name, "default")))
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
