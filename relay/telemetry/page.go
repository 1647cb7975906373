package telemetry

import (
	"fmt"
	"strings"
)

// Page describes instruments, in Markdown: docs/metrics.md.
func Page(instruments []Instrument) string {
	var b strings.Builder
	b.WriteString(intro)
	part := ""
	for _, i := range instruments {
		if p := partOf(i.Name); p != part {
			part = p
			fmt.Fprintf(&b, "\n## %s\n\n| Metric | In Prometheus | Kind | Labels | Meaning |\n|---|---|---|---|---|\n", title(part))
		}
		kind := string(i.Kind)
		if i.Unit != "" {
			kind += ", " + units[i.Unit]
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", i.Name, i.Prometheus, kind, labelNames(i.Labels), i.Description)
	}
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

This page is made from the code: ` + "`go test ./relay -run TestMetricsPage -update`" + `.

Prometheus reads them at ` + "`/metrics`" + ` of the admin port, beside what Go and the process say of themselves. To clients that ask for OpenMetrics, histograms show traces as exemplars. With ` + "`OTEL_EXPORTER_OTLP_ENDPOINT`" + ` set they are also sent by OTLP, every minute or as ` + "`OTEL_METRIC_EXPORT_INTERVAL`" + ` says; ` + "`OTEL_METRICS_EXPORTER=none`" + ` turns that off.

No label is a client, a key or the name of a resource: the number of time series depends on the types in use alone. The exception has to be asked for: ` + "`telemetry.top_keys`" + ` names the keys with the most clients.

Histograms have fixed buckets, since every Prometheus and every dashboard can read them, and they can be added up over nodes whatever reads them. Those of time have the bounds 0.5 ms, 1, 2.5, 5, 10, 25, 50, 100, 250, 500 ms, 1 s, 2.5, 5, 10, 30 and 60 s, unless said otherwise. By OTLP they are exponential with ` + "`OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential_bucket_histogram`" + `.
`

var units = map[string]string{"s": "seconds", "By": "bytes", "1": "a ratio"}

// partOf is what a metric is about: the second part of its name.
func partOf(name string) string {
	parts := strings.SplitN(name, ".", 3)
	return parts[min(1, len(parts)-1)]
}

// title is the heading of a part.
func title(part string) string {
	if t, ok := titles[part]; ok {
		return t
	}
	return part
}

var titles = map[string]string{
	"build": "The program", "cache": "What is held", "downstream": "Clients", "last_good": "The last known good state", "origin": "Directories",
	"redis": "Redis", "rest": "Clients that poll", "tier": "The tier", "upstream": "Control planes and other nodes", "telemetry": "Telemetry itself",
	"refused": "What limits refuse", "limits": "Limits", "authorize": "Who may be what it says", "tls": "Certificates", "config": "Configuration", "key": "The largest keys", "admin": "The admin port",
}

// labelNames are the labels of an instrument; those that have few values with these.
func labelNames(labels []Label) string {
	var out []string
	for _, l := range labels {
		text := "`" + l.Name + "`"
		if l.Meaning == "" {
			text += " (" + strings.Join(l.Values, ", ") + ")"
		}
		if l.Optional {
			text += ", or none"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// valuesOf says what the values of a label are.
func valuesOf(l Label) string {
	if len(l.Values) == 0 {
		return l.Meaning
	}
	return l.Meaning + ": `" + strings.Join(l.Values, "`, `") + "`"
}
