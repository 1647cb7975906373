// Package telemetry is what a node tells of itself to the tools of operators: metrics,
// which Prometheus reads and OTLP sends, and traces, which OTLP sends. The parts of the
// node make their instruments with the plain OpenTelemetry interfaces; here stands
// where all of that goes, which labels there are, and what is said of each.
//
// Nothing is sent unless the environment says where: OTEL_EXPORTER_OTLP_ENDPOINT and
// its like, as OpenTelemetry defines them; see [New].
package telemetry
