package robust

import (
	"slices"
	"time"
)

// Upgrade replaces the program of one node after the other under load, as a rolling upgrade does, and
// runs the validators after each: nodes of both versions serve one tier meanwhile. It returns at the
// first violation.
func (w *World) Upgrade(binary string) {
	w.t.Helper()
	end := faults[slices.IndexFunc(faults[:], func(f fault) bool { return f.name == "terminate a node" })]
	for i, n := range w.nodes {
		began := w.to.Since()
		n.binary = binary
		w.round(round{faults: []chosen{{fault: end, node: i}}, away: -1, arrive: i % len(w.keys), moves: true, changes: 8, dwell: time.Second})
		w.logf("node %s runs %s: %.1fs", n.name, binary, (w.to.Since() - began).Seconds())
		if len(w.found) > 0 {
			return
		}
	}
}

// Stop judges the rest of a run.
func (w *World) Stop() {
	w.t.Helper()
	for _, v := range w.fleet.Violations() {
		w.contradict("Protocol", v)
	}
	for _, n := range w.nodes {
		w.checkLog(n)
	}
}
