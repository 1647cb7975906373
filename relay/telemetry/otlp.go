package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The signals, as the names of environment variables have them.
const (
	signalMetrics = "METRICS"
	signalTraces  = "TRACES"
	signalLogs    = "LOGS"
)

// The protocols of OTLP that are spoken.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// pushed says whether, and by which protocol, a signal is to be sent; "" means that it
// is not. also is what the exporter may be called beside otlp and none.
func pushed(signal string, also ...string) (protocol string, err error) {
	name := "OTEL_" + signal + "_EXPORTER"
	send := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	if chosen := os.Getenv(name); chosen != "" {
		send = false
		for one := range strings.SplitSeq(chosen, ",") {
			switch one = strings.TrimSpace(one); {
			case one == "otlp":
				send = true
			case one == "none" || len(also) > 0 && one == also[0]:
			default:
				return "", fmt.Errorf("%s is %q, expected otlp or none", name, chosen)
			}
		}
	}
	if !send || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	protocol = cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), protocolHTTP)
	if protocol != protocolGRPC && protocol != protocolHTTP {
		return "", fmt.Errorf("the OTLP protocol is %q, expected %s or %s", protocol, protocolGRPC, protocolHTTP)
	}
	return protocol, nil
}

// metricExporter sends metrics; nil where they are not to be sent.
func metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	protocol, err := pushed(signalMetrics, "prometheus")
	switch {
	case err != nil || protocol == "":
		return nil, err
	case protocol == protocolGRPC:
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// traceExporter sends spans; nil where they are not to be sent.
func traceExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol, err := pushed(signalTraces)
	switch {
	case err != nil || protocol == "":
		return nil, err
	case protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// watch logs when what is sent begins to be lost, and when it arrives again, rather
// than each time.
type watch struct {
	// Fixed after construction.
	what string
	log  *slog.Logger

	mu      sync.Mutex
	failing bool // guarded by mu
}

func (w *watch) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && !w.failing:
		w.log.Warn("telemetry does not arrive and is dropped", "signal", w.what, "error", err)
	case err == nil && w.failing:
		w.log.Info("telemetry arrives again", "signal", w.what)
	}
	w.failing = err != nil
}

// watchedMetrics is an exporter whose failures are logged once.
type watchedMetrics struct {
	sdkmetric.Exporter
	watch
}

// Export returns no error, which the SDK would write to standard error each time.
func (w *watchedMetrics) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	w.note(w.Exporter.Export(ctx, data))
	return nil
}

// watchedSpans is watchedMetrics for spans.
type watchedSpans struct {
	sdktrace.SpanExporter
	watch
}

// ExportSpans returns no error; see watchedMetrics.
func (w *watchedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	w.note(w.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
