package upstream

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// dirMetrics count by reason and state, never by path: [Directory.Errors] has the paths.
type dirMetrics struct {
	name    string              // name of the origin; fixed
	errors  metric.Int64Counter // I3
	reloads metric.Int64Counter
	files   metric.Int64Gauge
}

func newDirMetrics(meter metric.Meter, name string) (m *dirMetrics, err error) {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	m = &dirMetrics{name: name}
	if m.errors, err = meter.Int64Counter("xdsrelay.origin.file.errors",
		metric.WithDescription("Files of a directory origin that could not be used, each counted once per change of the file.")); err != nil {
		return nil, err
	}
	if m.reloads, err = meter.Int64Counter("xdsrelay.origin.file.reloads",
		metric.WithDescription("Times that a directory origin was found changed and taken over.")); err != nil {
		return nil, err
	}
	m.files, err = meter.Int64Gauge("xdsrelay.origin.files",
		metric.WithDescription("Files of a directory origin, by whether their newest content is in force."))
	return m, err
}

func (m *dirMetrics) failed(ctx context.Context, reason dirReason) {
	m.errors.Add(ctx, 1, metric.WithAttributes(originLabel(m.name, attribute.String("reason", string(reason)))...))
}

func (m *dirMetrics) loaded(ctx context.Context, good, bad int) {
	m.reloads.Add(ctx, 1, metric.WithAttributes(originLabel(m.name)...))
	m.files.Record(ctx, int64(good), metric.WithAttributes(originLabel(m.name, attribute.String("state", "good"))...))
	m.files.Record(ctx, int64(bad), metric.WithAttributes(originLabel(m.name, attribute.String("state", "bad"))...))
}
