package events

import (
	"fmt"
	"strings"
)

// Page returns docs/reference/events.md, which describes all kinds.
func Page() string {
	var b strings.Builder
	b.WriteString(intro)
	group := ""
	for _, s := range table {
		if first, _, _ := strings.Cut(string(s.Kind), "."); first != group {
			group = first
			fmt.Fprintf(&b, "\n## %s\n\n| Kind | Severity | Subject | Text | Attributes |\n|---|---|---|---|---|\n", titles[group])
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Kind, s.Severity, s.subject(), readable(s.Text), s.attributes())
	}
	return b.String()
}

const intro = `# Events

This page is generated from the code: ` + "`go test ./relay -run TestEventsPage -update`" + `.

` + "`xdsrelay events`" + ` and ` + "[`GET /api/v1/events`](api.md#get-apiv1events)" + ` show what happened in a tier; every node can answer. See [Events](../operate/inspect.md#events-of-the-tier). Each node keeps its last 1,000 events in memory, at most 512 KiB. It copies the last 200 events of each other node every 5 minutes, and when a node drains.

- A fact that several nodes recorded within 30 s is one event, with the names of these nodes. The first one gives the time.
- Facts about keys within 2 s are one event with the number of keys and the names of the first 16.
- A node records at most 60 events of a kind in a minute. The next one has the number of those that were omitted.

The log has the same facts, as lines with the attribute ` + "`event`" + `. With ` + "`OTEL_EXPORTER_OTLP_ENDPOINT`" + ` set, a node also sends each event as a log record by OTLP: the kind is its event name and the attribute ` + "`event.name`" + `, the text its body, and the attributes of the table have the prefix ` + "`xdsrelay.`" + `. ` + "`OTEL_LOGS_EXPORTER=none`" + ` turns that off. Other lines of the log are not sent.

Texts may change between versions; kinds and attributes stay. In a text, *italics* are values.
`

// titles are the headings of kinds, by the first part of their names.
var titles = map[string]string{
	"node": "Nodes", "control_plane": "Control planes", "config": "Configuration", "owner": "Owners of keys", "redis": "Redis",
	"removal_guard": "Removal guard", "removals": "Removals without a guard", "certificate": "Certificates", "files": "Files", "clients": "Clients", "clock": "Clocks",
	"warning": "Warnings", "operator": "Operators",
}

// subject is what an event is about.
func (s *Spec) subject() string {
	if s.Name == "" {
		return string(s.About)
	}
	return string(s.About) + " `" + s.Name + "`"
}

func (s *Spec) attributes() string {
	var all []string
	for _, name := range s.Attributes {
		all = append(all, "`"+name+"`")
	}
	if s.Combining != Single {
		all = append(all, "`"+attributeKeys+"`")
	}
	return strings.Join(all, ", ")
}

// readable is a template with the names of values in italics.
func readable(template string) string {
	text := expand(strings.NewReplacer("[", "", "]", "").Replace(template), func(name string) string { return "*" + strings.ReplaceAll(name, "_", " ") + "*" })
	return strings.ReplaceAll(text, "|", "\\|")
}
