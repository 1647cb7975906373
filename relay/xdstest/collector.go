package xdstest

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"

	collectlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Collector receives telemetry by OTLP over gRPC, on a socket of the loopback.
type Collector struct {
	collecttrace.UnimplementedTraceServiceServer

	addr string // fixed

	mu sync.Mutex
	// Guarded by mu.
	spans   []Span
	metrics map[string]bool
	logs    []LogRecord
	traced  [][]byte          // and logged
	latest  map[string][]byte // of metrics, by instance
}

// Span is one that a Collector has received.
type Span struct {
	*tracepb.Span
	// Instance is the node that has sent it.
	Instance string
}

// LogRecord is one that a Collector has received.
type LogRecord struct {
	*logspb.LogRecord
	// Instance is the node that has sent it.
	Instance string
}

// Attribute is the value of an attribute as text, "" where there is none.
func (r LogRecord) Attribute(name string) any { return valueOf(r.Attributes, name) }

// Attribute is the value of an attribute as text, "" where there is none.
func (s Span) Attribute(name string) any { return valueOf(s.Attributes, name) }

func valueOf(all []*commonpb.KeyValue, name string) any {
	for _, kv := range all {
		if kv.Key != name {
			continue
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return v.IntValue
		case *commonpb.AnyValue_BoolValue:
			return v.BoolValue
		}
	}
	return ""
}

// StartCollector starts a Collector that ends with the test.
func StartCollector(t TB) *Collector {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	c := &Collector{addr: l.Addr().String(), metrics: make(map[string]bool), latest: make(map[string][]byte)}
	gs := grpc.NewServer()
	collecttrace.RegisterTraceServiceServer(gs, c)
	collectmetrics.RegisterMetricsServiceServer(gs, metricsCollector{c: c})
	collectlogs.RegisterLogsServiceServer(gs, logsCollector{c: c})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = gs.Serve(l)
	}()
	t.Cleanup(func() {
		gs.Stop()
		<-served
	})
	return c
}

// Env are the environment variables that lead to the Collector. Spans are sent at
// once.
func (c *Collector) Env() map[string]string {
	return map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.addr, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_BLRP_SCHEDULE_DELAY": "20", "OTEL_METRIC_EXPORT_INTERVAL": "100",
	}
}

// Spans are those that have come, with a name.
func (c *Collector) Spans(name string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s Span) bool { return s.Name != name })
}

// Children are the spans that have come below one.
func (c *Collector) Children(of Span) (below []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if string(s.ParentSpanId) == string(of.SpanId) {
			below = append(below, s)
		}
	}
	return below
}

// Received is all that has come, encoded as it came; of metrics the latest of each
// node.
func (c *Collector) Received() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(slices.Clone(c.traced), maps.Values(c.latest))
}

// Has reports whether a metric of a name has come.
func (c *Collector) Has(metric string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[metric]
}

// Export takes spans.
func (c *Collector) Export(_ context.Context, r *collecttrace.ExportTraceServiceRequest) (*collecttrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traced = append(c.traced, encoded(r))
	for _, of := range r.ResourceSpans {
		instance, _ := valueOf(of.Resource.Attributes, "service.instance.id").(string)
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{s, instance})
			}
		}
	}
	return &collecttrace.ExportTraceServiceResponse{}, nil
}

// metricsCollector is a Collector for metrics, whose method has the same name.
type metricsCollector struct {
	collectmetrics.UnimplementedMetricsServiceServer
	c *Collector
}

func (m metricsCollector) Export(_ context.Context, r *collectmetrics.ExportMetricsServiceRequest) (*collectmetrics.ExportMetricsServiceResponse, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for _, of := range r.ResourceMetrics {
		instance, _ := valueOf(of.Resource.Attributes, "service.instance.id").(string)
		m.c.latest[instance] = encoded(of)
		for _, scope := range of.ScopeMetrics {
			for _, one := range scope.Metrics {
				m.c.metrics[one.Name] = true
			}
		}
	}
	return &collectmetrics.ExportMetricsServiceResponse{}, nil
}

// Logs are the log records that have come, with an event name.
func (c *Collector) Logs(event string) []LogRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.logs), func(r LogRecord) bool { return r.EventName != event })
}

// logsCollector is a Collector for log records, whose method has the same name.
type logsCollector struct {
	collectlogs.UnimplementedLogsServiceServer
	c *Collector
}

func (l logsCollector) Export(_ context.Context, r *collectlogs.ExportLogsServiceRequest) (*collectlogs.ExportLogsServiceResponse, error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.traced = append(l.c.traced, encoded(r))
	for _, of := range r.ResourceLogs {
		instance, _ := valueOf(of.Resource.Attributes, "service.instance.id").(string)
		for _, scope := range of.ScopeLogs {
			for _, one := range scope.LogRecords {
				l.c.logs = append(l.c.logs, LogRecord{one, instance})
			}
		}
	}
	return &collectlogs.ExportLogsServiceResponse{}, nil
}

// encoded is a message that has come, and so can be encoded.
func encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic("xdstest: encode what has come: " + err.Error())
	}
	return b
}
