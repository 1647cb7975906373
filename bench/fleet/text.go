package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Line is one line of progress: what there is, and what came since an earlier
// look a second before.
func (s *Stats) Line(last *Stats) string {
	text := fmt.Sprintf("%d connected, %d synced of %d; %d responses/s, %d kB/s", s.Connected, s.Synced, s.Clients,
		max(s.Responses-last.Responses, 0), max(s.WireIn-last.WireIn, 0)/1000)
	if p := &s.Propagation; p.Count > 0 {
		text += fmt.Sprintf("; propagation p50 %.3g ms, p99 %.3g ms", p.P50, p.P99)
	}
	if n := s.broken(); n > 0 {
		text += fmt.Sprintf("; %d VIOLATIONS", n)
	}
	if n := s.endings(); n > 0 {
		text += fmt.Sprintf("; %d ended", n)
	}
	return text
}

func (s *Stats) broken() (n int64) {
	for _, v := range s.Violations {
		n += v.Count
	}
	return n
}

func (s *Stats) endings() (n int64) {
	for _, e := range s.Ends {
		n += e.Count
	}
	return n
}

// Table is everything, for people.
func (s *Stats) Table() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("clients", "%d, of which %d connected and %d synced", s.Clients, s.Connected, s.Synced)
	row("responses", "%d with %d resources (%d resent), %d bytes", s.Responses, s.Resources, s.Resent, s.Bytes)
	row("answers", "%d ACKs, %d NACKs", s.ACKs, s.NACKs)
	row("on the wire", "%d bytes in, %d out", s.WireIn, s.WireOut)
	for _, l := range []struct {
		name string
		of   *Latency
	}{{"first sync", &s.FirstSync}, {"propagation", &s.Propagation}, {"of the troubled", &s.Troubled}} {
		if l.of.Count > 0 {
			row(l.name, "p50 %.3g ms, p90 %.3g, p99 %.3g, p99.9 %.3g, max %.3g (%d values)",
				l.of.P50, l.of.P90, l.of.P99, l.of.P999, l.of.Max, l.of.Count)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Ends)) {
		row("ended", "%d × %s, first: %s", s.Ends[k].Count, k, s.Ends[k].First)
	}
	if len(s.Violations) == 0 {
		row("violations", "none")
	}
	for _, k := range slices.Sorted(maps.Keys(s.Violations)) {
		row("VIOLATED", "%d × %s, first: %s", s.Violations[k].Count, k, s.Violations[k].First)
	}
	return b.String()
}
