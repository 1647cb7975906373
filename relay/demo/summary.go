package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// How much is listed of what clients lack.
const (
	maxLacks   = 20 // resources, with what is wrong
	maxClients = 5  // clients of each
)

// summarize says what came of a demo.
func summarize(d *demo, lacks []lack) {
	out, t, n := d.cfg.Out, d.track, d.node.totals
	var file, relay []time.Duration
	for _, e := range t.events {
		for _, a := range e.reached {
			if a.client.slow == 0 {
				file = append(file, a.fromFile)
				if a.fromRelay >= 0 {
					relay = append(relay, a.fromRelay)
				}
			}
		}
	}
	fmt.Fprintf(out, "\nAfter %s:\n", brief(time.Since(d.began)))
	fmt.Fprintf(out, "  changes         %d resources, file→client %s, relay→client %s (p50 p99 max)\n", t.origin.changes, spreadOf(file), spreadOf(relay))
	fmt.Fprintf(out, "  relay → clients %s in %s responses, of %s encoded bodies: each sent %s times\n", size(n.bytes), count(n.responses), count(n.built), n.perBody())
	fmt.Fprintf(out, "  upstream        %s of resources, once for each key\n", size(t.origin.bytes))
	fmt.Fprintf(out, "  answers         %s ACKs, %s NACKs; %s changes merged for slow clients\n", count(n.acks), count(n.nacks), count(t.skipped))
	if len(lacks) == 0 {
		fmt.Fprintf(out, "  verdict         all %d clients have the last state of %s, byte by byte\n", len(d.fleet.clients), d.files.root)
		return
	}
	fmt.Fprintf(out, "  verdict         %d of %d clients do not have the last state of %s:\n", countClients(lacks), len(d.fleet.clients), d.files.root)
	lines := listLacks(lacks)
	for _, l := range lines[:min(len(lines), maxLacks)] {
		fmt.Fprintf(out, "    %s\n", l)
	}
	if more := len(lines) - maxLacks; more > 0 {
		fmt.Fprintf(out, "    … and %d more\n", more)
	}
}

// listLacks says who lacks what, clients that are alike in one line.
func listLacks(lacks []lack) (lines []string) {
	who := make(map[string][]string)
	var order []string
	for _, l := range lacks {
		what := l.ref.String() + ": " + l.why
		if who[what] == nil {
			order = append(order, what)
		}
		who[what] = append(who[what], l.client.id)
	}
	slices.Sort(order)
	for _, what := range order {
		ids := who[what]
		names := strings.Join(ids[:min(len(ids), maxClients)], ", ")
		if more := len(ids) - maxClients; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, what+" ("+names+")")
	}
	return lines
}
