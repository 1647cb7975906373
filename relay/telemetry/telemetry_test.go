package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xdsrelay/relay/trace"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func made(t *testing.T) (*Telemetry, error) {
	t.Helper()
	tel, err := New(Config{Version: "v", Instance: "n", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Cleanup(tel.Close)
	}
	return tel, err
}

// TestEnvironment: what is sent, and how, is said by the variables that OpenTelemetry
// defines, and without them nothing is.
func TestEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, test := range []struct {
		name   string
		env    map[string]string
		traced bool
		err    string
	}{
		{"nothing", nil, false, ""},
		{"endpoint", map[string]string{endpoint: "http://127.0.0.1:1"}, true, ""},
		{"gRPC", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		{"for metrics alone", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"}, false, ""},
		{"none", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "prometheus"}, false, ""},
		{"disabled", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, ""},
		{"no such exporter", map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, `OTEL_TRACES_EXPORTER is "zipkin", expected otlp or none`},
		{"no such protocol", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, `the OTLP protocol is "http/json"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			tel, err := made(t)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, expected %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if traced := tel.Tracer() != nil; traced != test.traced {
				t.Errorf("traced: %t, expected %t", traced, test.traced)
			}
		})
	}
}

// TestSampler: OTEL_TRACES_SAMPLER says which updates are traced.
func TestSampler(t *testing.T) {
	for name, value := range xdstest.StartCollector(t).Env() {
		t.Setenv(name, value)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tel, err := made(t)
	if err != nil {
		t.Fatal(err)
	}
	if u := tel.Tracer().Start(trace.Source{Received: time.Now()}, 1, 1); u != nil {
		t.Error("an update is traced although no trace is sampled")
	}
}

// TestLogHandler: a line with the context of a span says which trace that is.
func TestLogHandler(t *testing.T) {
	for name, value := range xdstest.StartCollector(t).Env() {
		t.Setenv(name, value)
	}
	tel, err := made(t)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&out, nil))).With("a", "b")
	log.InfoContext(context.Background(), "without")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("a line without a span has a trace: %s", &out)
	}
	u := tel.Tracer().Start(trace.Source{Received: time.Now()}, 1, 1)
	log.InfoContext(u.Context(), "with")
	if id := strings.Split(u.Parent(), "-")[1]; !strings.Contains(out.String(), "trace_id="+id) {
		t.Errorf("no trace_id=%s in %s", id, &out)
	}
}
