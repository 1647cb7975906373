package upstream

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// dirMetrics count by reason and state, never by path: [Directory.Errors] has the paths.
type dirMetrics struct {
	name    string              // name of the upstream; fixed
	errors  metric.Int64Counter // I3
	reloads metric.Int64Counter
	files   metric.Int64Gauge
}

func newDirMetrics(meter metric.Meter, name string) (m *dirMetrics, err error) {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	m = &dirMetrics{name: name}
	if m.errors, err = meter.Int64Counter("xdsrelay.directory.file_errors",
		metric.WithDescription("Invalid files of an upstream directory; a file counts once per change.")); err != nil {
		return nil, err
	}
	if m.reloads, err = meter.Int64Counter("xdsrelay.directory.reloads",
		metric.WithDescription("Reloads of a changed upstream directory.")); err != nil {
		return nil, err
	}
	m.files, err = meter.Int64Gauge("xdsrelay.directory.files",
		metric.WithDescription("Files of an upstream directory. The node serves the newest content of valid files, and the last valid content of invalid files."))
	return m, err
}

func (m *dirMetrics) failed(ctx context.Context, reason dirReason) {
	m.errors.Add(ctx, 1, metric.WithAttributes(upstreamLabel(m.name, attribute.String("reason", string(reason)))...))
}

func (m *dirMetrics) loaded(ctx context.Context, good, bad int) {
	m.reloads.Add(ctx, 1, metric.WithAttributes(upstreamLabel(m.name)...))
	m.files.Record(ctx, int64(good), metric.WithAttributes(upstreamLabel(m.name, attribute.String("state", "valid"))...))
	m.files.Record(ctx, int64(bad), metric.WithAttributes(upstreamLabel(m.name, attribute.String("state", "invalid"))...))
}
