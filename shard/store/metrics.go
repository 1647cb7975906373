package store

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics count by call and outcome, never by key.
type metrics struct {
	calls metric.Int64Counter
	took  metric.Float64Histogram
	up    metric.Registration
}

func newMetrics(meter metric.Meter, b *breaker) (*metrics, error) {
	m := &metrics{}
	var err error
	if m.calls, err = meter.Int64Counter("xdsrelay.redis.calls",
		metric.WithDescription("Calls to Redis: ok; error (Redis answered with an error); no_answer; canceled (by the caller); skipped (not made, because Redis is unreachable).")); err != nil {
		return nil, err
	}
	if m.took, err = meter.Float64Histogram("xdsrelay.redis.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls to Redis, without skipped ones."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5)); err != nil {
		return nil, err
	}
	up, err := meter.Int64ObservableGauge("xdsrelay.redis.up",
		metric.WithDescription("1 while Redis is reachable, otherwise 0."))
	if err != nil {
		return nil, err
	}
	m.up, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n := int64(0)
		if b.current().Up {
			n = 1
		}
		o.ObserveInt64(up, n)
		return nil
	}, up)
	return m, err
}

func (m *metrics) close() error { return m.up.Unregister() }

// called counts a call with its result.
func (m *metrics) called(name string, err error, took time.Duration) {
	outcome := "error"
	switch {
	case err == nil:
		outcome = "ok"
	case errors.Is(err, ErrDown):
		outcome = "skipped"
	case isCallerCancelled(err):
		outcome = "canceled"
	case unreachable(err):
		outcome = "no_answer"
	}
	ctx := context.Background()
	m.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("call", name), attribute.String("outcome", outcome)))
	if outcome != "skipped" {
		m.took.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("call", name)))
	}
}
