package robust

import (
	"fmt"
	"slices"
	"strings"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
)

// explain says what contradicted, with the events around it.
func (w *World) explain() string {
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d contradictions; the recording and the logs of the nodes are in %s\n", w.cfg.Seed, len(w.found), w.cfg.Dir)
	for i, c := range w.found {
		if i == most {
			fmt.Fprintf(&b, "… and %d more\n", len(w.found)-most)
			break
		}
		fmt.Fprintf(&b, "\n%s\n", c)
		for _, line := range w.around(c) {
			b.WriteString("        " + line + "\n")
		}
	}
	return b.String()
}

// around lists the events that have to do with a contradiction: those of the same
// client, those of the origin that concern the same names, and the faults.
func (w *World) around(c check.Contradiction) (lines []string) {
	const before, after = 40, 5
	last := 0
	for i := range w.recent {
		e := &w.recent[i]
		if !concerns(&c.Event, e) {
			continue
		}
		lines = append(lines, e.String())
		if e.Seq <= c.Event.Seq {
			last = len(lines)
		}
	}
	return lines[max(0, last-before):min(len(lines), last+after)]
}

func concerns(of, e *record.Event) bool {
	switch e.Kind {
	case record.Fault, record.Healed, record.NodeDown, record.NodeUp, record.Rest, record.Held:
		return true
	case record.OriginOpen, record.OriginEnd:
		return of.Key == "" || e.Key == of.Key
	case record.OriginState, record.OriginSent, record.OriginAcked:
		return e.Key == of.Key && e.Type == of.Type && mentions(of, e)
	case record.ClientOpen, record.ClientGot, record.ClientEnd:
		return e.Client == of.Client && (of.Type == "" || e.Type == "" || e.Type == of.Type)
	}
	return false
}

func mentions(a, b *record.Event) bool {
	names := slices.Clone(a.Removed)
	for _, r := range a.Resources {
		names = append(names, r.Name)
	}
	return slices.ContainsFunc(b.Resources, func(r record.Resource) bool { return slices.Contains(names, r.Name) }) ||
		slices.ContainsFunc(b.Removed, func(n string) bool { return slices.Contains(names, n) })
}
