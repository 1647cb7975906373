package fanout

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// loadMetrics count load reports, never by node, key or cluster.
type loadMetrics struct {
	streams  metric.Int64UpDownCounter
	reports  metric.Int64Counter
	clusters metric.Int64Counter
	bytes    metric.Int64Counter
	leftOut  metric.Int64Counter
}

func newLoadMetrics(m metric.Meter) (*loadMetrics, error) {
	var errs [5]error
	var l loadMetrics
	l.streams, errs[0] = m.Int64UpDownCounter("xdsrelay.downstream.load.streams", metric.WithDescription("Open load report streams of clients."))
	l.reports, errs[1] = m.Int64Counter("xdsrelay.downstream.load.reports", metric.WithDescription("Load reports received from clients."))
	l.clusters, errs[2] = m.Int64Counter("xdsrelay.downstream.load.clusters", metric.WithDescription("Clusters in load reports received from clients."))
	l.bytes, errs[3] = m.Int64Counter("xdsrelay.downstream.load.received", metric.WithUnit("By"), metric.WithDescription("Bytes of load reports received from clients."))
	l.leftOut, errs[4] = m.Int64Counter("xdsrelay.downstream.load.dropped", metric.WithDescription("Clusters, localities, endpoints, metrics and values dropped from load reports, because the key holds too many or a value is not a number."))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &l, nil
}

func (l *loadMetrics) stream(n int64) { l.streams.Add(context.Background(), n) }

func (l *loadMetrics) received(clusters, size, leftOut int) {
	ctx := context.Background()
	l.reports.Add(ctx, 1)
	l.clusters.Add(ctx, int64(clusters))
	l.bytes.Add(ctx, int64(size))
	if leftOut > 0 {
		l.leftOut.Add(ctx, int64(leftOut))
	}
}
