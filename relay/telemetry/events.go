package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	otellog "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"xdsrelay/relay/events"
)

// logExporter sends log records; nil where they are not to be sent.
func logExporter(ctx context.Context) (sdklog.Exporter, error) {
	protocol, err := pushed(signalLogs)
	switch {
	case err != nil || protocol == "":
		return nil, err
	case protocol == protocolGRPC:
		return otlploggrpc.New(ctx)
	}
	return otlploghttp.New(ctx)
}

// watchedLogs is watchedMetrics for log records.
type watchedLogs struct {
	sdklog.Exporter
	watch
}

// Export returns no error; see watchedMetrics.
func (w *watchedLogs) Export(ctx context.Context, records []sdklog.Record) error {
	w.note(w.Exporter.Export(ctx, records))
	return nil
}

// The severities of OpenTelemetry.
var severities = map[events.Severity]otellog.Severity{
	events.Info: otellog.SeverityInfo, events.Warning: otellog.SeverityWarn, events.Error: otellog.SeverityError,
}

// Event sends an event as a log record, if logs are sent. It does not wait for the network.
func (t *Telemetry) Event(e events.Event) {
	if t.logger == nil {
		return
	}
	var r otellog.Record
	r.SetEventName(string(e.Kind))
	r.SetTimestamp(e.Time)
	r.SetSeverity(severities[e.Severity])
	r.SetSeverityText(string(e.Severity))
	r.SetBody(attribute.StringValue(e.Text))
	r.AddAttributes(attribute.String("event.name", string(e.Kind)), attribute.String("xdsrelay.event.about", string(e.Subject.About)))
	if e.Subject.Name != "" {
		r.AddAttributes(attribute.String("xdsrelay.event.subject", e.Subject.Name))
	}
	for name, value := range e.Attributes {
		r.AddAttributes(attribute.String("xdsrelay."+name, value))
	}
	if len(e.Keys) > 0 {
		r.AddAttributes(attribute.StringSlice("xdsrelay.key_names", e.Keys))
	}
	t.logger.Emit(context.Background(), r)
}
