package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"xdsrelay/relay/trace"
)

// Config says of which node telemetry is.
type Config struct {
	// Version is the program's, Instance the name of the node.
	Version, Instance string
	// ClientSpans is how many clients of an update get spans of their own.
	ClientSpans int
	// Logger is told when what is sent does not arrive. Required.
	Logger *slog.Logger
}

// Telemetry is where a node's instruments go. They have a registry of their own, so
// that several nodes fit into one process. All methods are safe for concurrent use.
type Telemetry struct {
	// Fixed after construction.
	own     *prometheus.Registry // of the relay
	process *prometheus.Registry // of the Go runtime and the process
	metrics *sdkmetric.MeterProvider
	meter   *recorder
	spans   *sdktrace.TracerProvider // nil where traces are not sent
	tracer  *trace.Tracer            // as above
	logs    *sdklog.LoggerProvider   // nil where logs are not sent
	logger  otellog.Logger           // as above
}

// translation is how OpenTelemetry's names become those of Prometheus.
func translation() otlptranslator.TranslationStrategyOption {
	return otlptranslator.UnderscoreEscapingWithSuffixes
}

// New makes the telemetry of a node, as the environment says:
//   - OTEL_METRICS_EXPORTER is otlp, prometheus or none; where it is not set, metrics
//     are sent if there is an endpoint. Prometheus can read them in any case.
//   - OTEL_TRACES_EXPORTER is otlp or none; where it is not set, traces are sent if
//     there is an endpoint. OTEL_TRACES_SAMPLER says of which updates.
//   - OTEL_LOGS_EXPORTER is otlp or none; where it is not set, events are sent as log records if
//     there is an endpoint.
//   - OTEL_EXPORTER_OTLP_ENDPOINT, …_PROTOCOL (grpc or http/protobuf), …_HEADERS,
//     …_CERTIFICATE and so on, and those for metrics alone, say where to and how.
//   - OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say who sends;
//     OTEL_SDK_DISABLED=true that nothing is sent at all.
//
// It fails where the environment asks for what there is not.
func New(cfg Config) (*Telemetry, error) {
	who, err := identityOf(cfg)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	own, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(own), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithTranslationStrategy(translation()))
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(exporter), sdkmetric.WithResource(who)}
	sent, err := metricExporter(context.Background())
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics: %w", err)
	}
	if sent != nil {
		sent = &watchedMetrics{Exporter: sent, watch: watch{what: "metrics", log: cfg.Logger}}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(sent)))
	}
	exporting, err := traceExporter(context.Background())
	if err != nil {
		_ = sdkmetric.NewMeterProvider(options...).Shutdown(context.Background()) // nothing was sent yet
		return nil, fmt.Errorf("telemetry: traces: %w", err)
	}
	logging, err := logExporter(context.Background())
	if err != nil {
		_ = sdkmetric.NewMeterProvider(options...).Shutdown(context.Background()) // nothing was sent yet
		if exporting != nil {
			_ = exporting.Shutdown(context.Background()) // as above
		}
		return nil, fmt.Errorf("telemetry: logs: %w", err)
	}
	if exporting == nil {
		// Exemplars show traces. Room for them is a sixth of what an idle node allocates.
		options = append(options, sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter))
	}
	t := &Telemetry{own: own, process: process, metrics: sdkmetric.NewMeterProvider(options...)}
	t.meter = &recorder{Meter: t.metrics.Meter("xdsrelay", metric.WithInstrumentationVersion(cfg.Version)), labels: labels()}
	if exporting != nil {
		exporting = &watchedSpans{SpanExporter: exporting, watch: watch{what: "traces", log: cfg.Logger}}
		t.spans = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporting), sdktrace.WithResource(who))
		t.tracer = trace.New(trace.Config{Spans: t.spans.Tracer("xdsrelay", oteltrace.WithInstrumentationVersion(cfg.Version)), Clients: cfg.ClientSpans})
	}
	if logging != nil {
		logging = &watchedLogs{Exporter: logging, watch: watch{what: "logs", log: cfg.Logger}}
		t.logs = sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(logging)), sdklog.WithResource(who))
		t.logger = t.logs.Logger("xdsrelay", otellog.WithInstrumentationVersion(cfg.Version))
	}
	return t, nil
}

// identityOf is who the telemetry is of: what the environment says goes first.
func identityOf(cfg Config) (*resource.Resource, error) {
	own := resource.NewSchemaless(attribute.String("service.name", "xdsrelay"),
		attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", cfg.Instance))
	said, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	return resource.Merge(own, said)
}

// Meter makes instruments.
func (t *Telemetry) Meter() metric.Meter { return t.meter }

// Tracer follows updates; nil where traces are not sent.
func (t *Telemetry) Tracer() *trace.Tracer { return t.tracer }

// Registry is what Prometheus reads: the metrics of the relay, of the Go runtime and of the process.
func (t *Telemetry) Registry() prometheus.Gatherer { return prometheus.Gatherers{t.own, t.process} }

// Own are the metrics of the relay alone. Those of the process cost more: to count open files, the
// system lists them all.
func (t *Telemetry) Own() prometheus.Gatherer { return t.own }

// Instruments are those that were made by now, by name.
func (t *Telemetry) Instruments() []Instrument { return t.meter.instruments() }

// closeTime bounds the wait for what is left to be sent.
const closeTime = 2 * time.Second

// Close sends what is left, and ends all of it.
func (t *Telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	t.tracer.Close()
	if t.spans != nil {
		_ = t.spans.Shutdown(ctx) // that it does not arrive was logged
	}
	if t.logs != nil {
		_ = t.logs.Shutdown(ctx) // that it does not arrive was logged
	}
	_ = t.metrics.Shutdown(ctx) // that it does not arrive was logged
}
