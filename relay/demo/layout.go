package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (s *screen) head() []line {
	d := s.d
	l := line{}.add(bold, " xdsrelay demo").add(dim, "   %s", time.Since(d.began).Truncate(time.Second))
	if d.cfg.For > 0 {
		l = l.add(dim, " of %s", d.cfg.For)
	}
	return []line{
		l,
		line{}.add(cyan, " %s", d.files.root).add("", " → relay ").add(cyan, "%s", d.node.addr).
			add("", " → %s clients", count(len(d.fleet.clients))),
		{},
	}
}

// fleetLines show what the fleet is made of, and of each key how many of its
// clients are in step.
func (s *screen) fleetLines() []line {
	byKind, byKey := make(map[string]int), make(map[string]int)
	open := make(map[string]int) // streams of a key
	slow := 0
	for _, c := range s.d.fleet.clients {
		byKind[c.kind.short]++
		byKey[c.key]++
		n, _ := c.openStreams()
		open[c.key] += n
		if c.slow > 0 {
			slow++
		}
	}
	var of []string
	for _, k := range kinds() {
		if n := byKind[k.short]; n > 0 {
			of = append(of, fmt.Sprintf("%d %s", n, k.short))
			delete(byKind, k.short)
		}
	}
	lines := []line{
		line{}.add("", " %s", strings.Join(of, ", ")).add(yellow, "; %d of them slow", slow),
		{},
		line{}.add(dim, " %-16s %8s %8s  %s", "KEY", "CLIENTS", "STREAMS", "HOLD THE LAST STATE"),
	}
	for _, key := range s.d.fleet.keys {
		total := byKey[key]
		have := total - s.d.track.behind[key]
		style := green
		if have < total {
			style = yellow
		}
		lines = append(lines, line{}.add(bold, " %-16s", cut(key, 16)).add("", " %8d %8d  ", total, open[key]).
			add(style, "%s %9s", bar(have, total, 24), fmt.Sprintf("%d/%d", have, total)))
	}
	return append(lines, line{})
}

// columns says which columns of the changes there is room for.
type columns struct{ keys, bar, file bool }

func columnsFor(width int) columns {
	return columns{file: width >= 90, keys: width >= 116, bar: width >= 130}
}

// changes show the newest changes first, as many as there is room for.
func (s *screen) changes(width, room int) []line {
	col := columnsFor(width)
	head := fmt.Sprintf(" %-8s  %-20s", "CHANGED", "WHAT")
	if col.keys {
		head += fmt.Sprintf("  %-15s", "OF KEYS")
	}
	if col.bar {
		head += fmt.Sprintf("  %-10s", "")
	}
	head += fmt.Sprintf("  %9s", "REACHED")
	if col.file {
		head += fmt.Sprintf("  %-19s", "SINCE FILE WRITTEN")
	}
	head += fmt.Sprintf("  %-19s  %s", "SINCE RELAY HAS IT", "SLOW CLIENTS")
	lines := []line{line{}.add(dim, "%s", head)}
	events := s.d.track.events
	if len(events) == 0 {
		text := " waiting for the first change …"
		if s.d.edits == nil {
			text = " nothing has changed yet: edit a file"
		}
		return append(lines, line{}.add(dim, "%s", text))
	}
	for _, e := range slices.Backward(events) {
		if len(lines) >= room {
			break
		}
		lines = append(lines, eventLine(e, col))
	}
	return lines
}

// eventLine is one change.
func eventLine(e *event, col columns) line {
	r := e.reach()
	style := green
	if r.reached < r.wanted {
		style = yellow
	}
	what := ""
	switch {
	case e.now == nil:
		what = red
	case e.appears:
		what = green
	}
	l := line{}.add(dim, " %s", e.wrote.Format(time.TimeOnly)).add(what, "  %-20s", cut(e.what(), 20))
	if col.keys {
		l = l.add(cyan, "  %-15s", cut(strings.Join(e.keys, " "), 15))
	}
	if col.bar {
		l = l.add(style, "  %s", bar(r.reached, r.wanted, 10))
	}
	l = l.add(style, "  %9s", fmt.Sprintf("%d/%d", r.reached, r.wanted))
	if col.file {
		l = l.add("", "  %-19s", r.fromFile)
	}
	l = l.add(bold, "  %-19s", r.fromRelay)
	if r.slowWanted > 0 {
		slow := fmt.Sprintf("  %d/%d", r.slowReached, r.slowWanted)
		if r.slow.known {
			slow += " " + brief(r.slow.max)
		}
		l = l.add("", "%s", slow)
	}
	if r.skipped > 0 {
		l = l.add(yellow, ", %d skip", r.skipped)
	}
	if r.rejected > 0 {
		l = l.add(red, "  %d NACK", r.rejected)
	}
	return l
}

// totals are the sums over the whole demo.
func (s *screen) totals() []line {
	t, n := s.d.track, s.d.node.totals
	nacks := ""
	if n.nacks > 0 {
		nacks = red
	}
	return []line{
		{},
		line{}.add(dim, " from upstream   ").add(bold, "%9s", size(t.origin.bytes)).
			add("", "   resources of %d keys and %s changes, once a key", len(s.d.fleet.keys), count(t.origin.changes)),
		line{}.add(dim, " to the clients  ").add(bold, "%9s", size(n.bytes)).
			add("", "   %s responses, ", count(n.responses)).add(bold, "%s encoded", count(n.built)).
			add("", ": each sent %s times", n.perBody()),
		line{}.add(dim, " answers         ").add(bold, "%9s", count(n.acks)).add("", "   ACKs, ").add(nacks, "%s NACKs", count(n.nacks)).
			add("", ", %s changes merged for slow clients", count(t.skipped)),
	}
}

// foot says what can be tried, and what went wrong.
func (s *screen) foot() []line {
	lines := []line{{}}
	for _, n := range s.notes {
		lines = append(lines, line{}.add(red, " ! %s", n))
	}
	try := s.d.files.root
	if s.d.edits != nil {
		try += "/api/eds.yaml"
	}
	return append(lines,
		line{}.add(dim, " try   ").add("", "edit %s", try),
		line{}.add(dim, "       ").add("", "curl http://%s/debug/streams", s.d.node.admin).add(dim, "   (/debug/keys, /metrics, …)"),
		line{}.add(dim, " Times: p50 p99 max. Slow: one client in %d takes %s a response. Ctrl-C ends.", slowShare, brief(s.d.cfg.Slow)))
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
