package telemetry

import (
	"fmt"
	"strings"
)

// Page returns docs/reference/metrics.md, which describes all instruments.
func Page(instruments []Instrument) string {
	var b strings.Builder
	b.WriteString(intro)
	part := ""
	for _, i := range instruments {
		if p := partOf(i.Name); p != part {
			b.WriteString(notes[part])
			part = p
			fmt.Fprintf(&b, "\n## %s\n\n| Metric | In Prometheus | Kind | Labels | Description |\n|---|---|---|---|---|\n", titles[part])
		}
		kind := string(i.Kind)
		if i.Unit != "" {
			kind += ", " + units[i.Unit]
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", i.Name, i.Prometheus, kind, labelNames(i.Labels), i.Description)
	}
	b.WriteString(notes[part])
	b.WriteString("\n## Labels\n\n| Label | Values |\n|---|---|\n")
	seen := make(map[string]bool)
	for _, i := range instruments {
		for _, l := range i.Labels {
			if row := "| `" + l.Name + "` | " + valuesOf(l) + " |\n"; !seen[row] && l.Meaning != "" {
				seen[row] = true
				b.WriteString(row)
			}
		}
	}
	return b.String()
}

const intro = `# Metrics

This page is generated from the code: ` + "`go test ./relay -run TestMetricsPage -update`" + `.

Prometheus scrapes the metrics at ` + "`/metrics`" + ` of the admin port or of ` + "`metrics.address`" + `, together with those of the Go runtime and of the process. For scrapers that request OpenMetrics, histograms carry traces as exemplars. With ` + "`OTEL_EXPORTER_OTLP_ENDPOINT`" + ` set, the node also sends metrics by OTLP, once a minute or every ` + "`OTEL_METRIC_EXPORT_INTERVAL`" + `. ` + "`OTEL_METRICS_EXPORTER=none`" + ` turns that off.

No label has the name of a client, a key or a resource, so the number of time series depends only on the resource types in use. The exception is opt-in: ` + "`telemetry.top_keys`" + ` exports the keys with the most clients.

Histograms have fixed buckets, which every Prometheus and every dashboard can read and add up over nodes. Unless a description differs, the bounds of durations are 0.5 ms, 1, 2.5, 5, 10, 25, 50, 100, 250, 500 ms, 1 s, 2.5, 5, 10, 30 and 60 s. ` + "`OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential_bucket_histogram`" + ` makes them exponential over OTLP.

Points in time are Unix timestamps: ` + "`time() - xdsrelay_upstream_last_response_timestamp_seconds`" + ` is an age. Ratios are between 0 and 1.
`

var units = map[string]string{"s": "seconds", "By": "bytes", "1": "ratio"}

// partOf returns the namespace of a metric: the second part of its name.
func partOf(name string) string {
	parts := strings.SplitN(name, ".", 3)
	return parts[min(1, len(parts)-1)]
}

var titles = map[string]string{
	"build": "Build", "cache": "Keys and resources", "config": "Configuration", "directory": "Upstream directories", "downstream": "Clients",
	"key": "Largest keys", "last_known_good": "Last known good", "memory": "Memory", "redis": "Redis", "rejections": "Rejections",
	"removal_guard": "Removal guard", "rollout": "Rollouts", "rest": "Polling clients (REST)", "scheduling": "CPU", "tier": "Tier", "tls": "Certificates", "upstream": "Upstreams",
}

// notes are the texts below the tables of some parts.
var notes = map[string]string{
	"rejections": `
Each rejection counts once. Delayed requests (` + "`xdsrelay.downstream.delayed_requests`" + `) and drained streams (` + "`xdsrelay.downstream.drained_streams`" + `) are no rejections.

| ` + "`where`" + ` | What was rejected | ` + "`reason`" + ` |
|---|---|---|
| ` + "`connection`" + ` | a client connection, on arrival, in the TLS handshake, or while it had no stream | the limit; ` + "`tls_…`" + ` and the cause, like ` + "`tls_expired`" + `; ` + "`rebalanced`" + ` for a client that was just drained and must use another node |
| ` + "`stream`" + ` | a client stream, on arrival, before its first request is accepted, or because the client does not read | the limit; ` + "`rebalanced`" + ` while other nodes have room |
| ` + "`request`" + ` | a request on a stream, which ends the stream | the limit, or the gRPC code in snake_case, like ` + "`invalid_argument`" + ` or ` + "`permission_denied`" + ` (no aggregation rule matches) |
| ` + "`poll`" + ` | a request of a polling client | the gRPC code in snake_case |
| ` + "`authorization`" + ` | a new client or poll | ` + "`denied`" + `, ` + "`no_rule`" + `, ` + "`failed`" + ` (a rule cannot be evaluated for the client), ` + "`untrusted`" + ` (the certificate is no longer valid) |
| ` + "`recheck`" + ` | a connected client that is no longer authorized | the same |
| ` + "`client`" + ` | a connected client, shed because memory is short | the limit |
| ` + "`peer`" + ` | a connection or call on the peer port | the limit; ` + "`token`" + `; ` + "`tls_…`" + ` |
| ` + "`admin`" + ` | a connection or request on the admin or metrics port | the limit; ` + "`token`" + `, ` + "`read_only_token`" + `, ` + "`untrusted`" + `, ` + "`host`" + `, ` + "`cross_site`" + `; ` + "`tls_…`" + ` |

A limit has the last part of its configuration field as the reason; [limits](limits.md) lists them.
`,
}

// labelNames returns the labels of an instrument, with their values where these are few.
func labelNames(labels []Label) string {
	var out []string
	for _, l := range labels {
		text := "`" + l.Name + "`"
		if l.Meaning == "" {
			text += " (" + strings.Join(l.Values, ", ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// valuesOf describes the values of a label.
func valuesOf(l Label) string {
	if len(l.Values) == 0 {
		return l.Meaning
	}
	return l.Meaning + ": `" + strings.Join(l.Values, "`, `") + "`"
}
