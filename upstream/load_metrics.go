package upstream

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// loadMetrics are the metrics of load reports, never by key or cluster. All methods are safe for
// concurrent use.
type loadMetrics struct {
	streams metric.Int64UpDownCounter
	reports metric.Int64Counter
	bytes   metric.Int64Counter

	outSent, outUnsent metric.MeasurementOption
}

func newLoadMetrics(meter metric.Meter) (*loadMetrics, error) {
	outcome := func(o string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", o)))
	}
	m := &loadMetrics{outSent: outcome("sent"), outUnsent: outcome("unsent")}
	var err error
	if m.streams, err = meter.Int64UpDownCounter("xdsrelay.upstream.load.streams",
		metric.WithDescription("Streams on which a control plane has requested load reports.")); err != nil {
		return nil, err
	}
	if m.reports, err = meter.Int64Counter("xdsrelay.upstream.load.reports",
		metric.WithDescription("Load reports to control planes: sent, or unsent (the content is part of the next report).")); err != nil {
		return nil, err
	}
	m.bytes, err = meter.Int64Counter("xdsrelay.upstream.load.sent", metric.WithUnit("By"),
		metric.WithDescription("Bytes of load reports sent to control planes, uncompressed."))
	return m, err
}

func (m *loadMetrics) stream(n int64) { m.streams.Add(context.Background(), n) }

func (m *loadMetrics) sent(size int) {
	m.reports.Add(context.Background(), 1, m.outSent)
	m.bytes.Add(context.Background(), int64(size))
}

func (m *loadMetrics) unsent() { m.reports.Add(context.Background(), 1, m.outUnsent) }
