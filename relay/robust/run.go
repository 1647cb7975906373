package robust

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
)

// A run is to see leases end, and owners out of reach.
const (
	defaultLease        = 3 * time.Second
	defaultOwnerTimeout = 500 * time.Millisecond
)

// keepRecent is how many events are kept for the message of a failure.
const keepRecent = 50_000

// Run goes through rounds until the configuration says that it is enough, or a
// guarantee did not hold. The report is written in either case.
func (w *World) Run() *Report {
	w.t.Helper()
	report := newReport(w)
	for p, i := newPlan(w.cfg), 0; len(w.found) == 0 && (i < w.cfg.Rounds || w.to.Since() < w.cfg.For); i++ {
		r := p.next()
		began := w.to.Since()
		w.round(r)
		report.round(r, began, w)
		w.logf("round %d, %.0fs: %s: %.1fs", i+1, w.to.Since().Seconds(), r, (w.to.Since() - began).Seconds())
	}
	w.Stop()
	report.end(w)
	return report
}

func (w *World) logf(format string, args ...any) {
	if w.cfg.Logf != nil {
		w.cfg.Logf(format, args...)
	}
}

// round is faults, changes while they last, and what must be so then; then rest, and
// clients that move.
func (w *World) round(r round) {
	w.t.Helper()
	if r.away >= 0 {
		w.fleet.Leave(w.keys[r.away])
	}
	for _, f := range r.faults {
		n := w.node(f)
		w.tell(record.Fault, f, n)
		w.trouble(f, true)
		f.begin(w, n)
	}
	if r.arrive >= 0 {
		w.fleet.Arrive(w.keys[r.arrive])
	}
	w.change(r.changes - r.changes/2)
	w.held(r)
	if r.moves {
		w.fleet.Move(0.2)
	}
	w.dwell(r.dwell)
	w.change(r.changes / 2)
	w.held(r)
	for _, f := range r.faults {
		n := w.node(f)
		f.heal(w, n)
		w.tell(record.Healed, f, n)
		w.trouble(f, false)
	}
	w.rest()
	w.fleet.Depart()
	if r.away >= 0 {
		w.fleet.Return(w.keys[r.away])
		w.rest()
	}
	if len(w.found) > 0 {
		return
	}
	if w.random.IntN(3) == 0 {
		w.past = w.origin.Snapshot()
	}
	w.fleet.Move(0.1)
	w.rest()
}

func (w *World) node(c chosen) *Node {
	if c.node < 0 {
		return nil
	}
	return w.nodes[c.node]
}

// trouble notes that a fault begins or ends, for those that judge what lasts.
func (w *World) trouble(f chosen, begins bool) {
	w.observe() // what came before
	w.served.trouble(f, begins, w.to.Since())
	if w.guard != nil {
		w.guard.trouble(f, begins)
	}
}

func (w *World) tell(kind record.Kind, c chosen, n *Node) {
	e := record.Event{Kind: kind, Why: c.name}
	if n != nil {
		e.Node = n.name
	}
	w.to.Add(e)
}

// change makes changes one after the other, with moments between them, so that they
// meet a fault in all its stages.
func (w *World) change(count int) {
	for range count {
		w.origin.Change(w.keys[w.random.IntN(len(w.keys))], w.random)
		w.dwell(time.Duration(w.random.IntN(150)) * time.Millisecond)
	}
}

// dwell lets time pass. Nothing has to happen in it.
func (w *World) dwell(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	w.observe()
}

// held waits until clients have all that the origin has, though faults last, where
// they are of that kind.
func (w *World) held(r round) {
	w.t.Helper()
	if r.bears(w.cfg.Tier) {
		w.await(record.Held, r.String(), w.suite.Unconverged)
	}
}

// rest waits until all is at rest.
func (w *World) rest() {
	w.t.Helper()
	w.await(record.Rest, "", w.suite.Unsettled)
	for _, n := range w.nodes {
		w.checkNode(n)
	}
}

// await waits until nothing is open, at several looks in a row, and records that it
// is so; or that it is not, which the validators then find.
func (w *World) await(kind record.Kind, why string, open func() []string) {
	w.t.Helper()
	const looks, long = 3, 5 * time.Second
	began, logged := time.Now(), false
	for good, deadline := 0, began.Add(patience); ; {
		w.observe()
		if len(w.found) > 0 {
			return
		}
		if left := open(); len(left) == 0 {
			good++
		} else {
			good = 0
			if time.Since(began) > long && !logged {
				logged = true
				w.logf("%.0fs: after %s %d parts are not at rest, such as: %s", w.to.Since().Seconds(), long, len(left), left[0])
			}
		}
		if good >= looks && w.to.AddNext(record.Event{Kind: kind, Why: why}) {
			break
		}
		if time.Now().After(deadline) {
			w.to.Add(record.Event{Kind: kind, Why: strings.TrimSpace(why + " waited for in vain")})
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	w.observe()
}

// observe judges what was recorded since the last time.
func (w *World) observe() {
	events := w.to.Take()
	if err := w.file.Write(events); err != nil {
		w.t.Errorf("%v", err)
	}
	for i := range events {
		w.totals.add(&events[i])
		w.found = append(w.found, w.suite.Observe(&events[i])...)
		w.served.observe(&events[i])
		if w.guard != nil {
			w.found = append(w.found, w.guard.observe(&events[i])...)
		}
	}
	w.found = append(w.found, w.served.look(w.to.Since())...)
	w.recent = append(w.recent, events...)
	if over := len(w.recent) - keepRecent; over > 0 {
		w.recent = append(w.recent[:0], w.recent[over:]...)
	}
}

// checkNode asks a node whether what it holds fits together, and notes if it does
// not, or if the node has ended.
func (w *World) checkNode(n *Node) {
	select {
	case <-n.done:
		w.contradict("Alive", fmt.Sprintf("node %s has ended by itself: %v", n.name, n.cmd.ProcessState))
		return
	default:
	}
	// Heads are compared from time to time: what differs for a moment is in order.
	var err error
	for deadline := time.Now().Add(patience); ; {
		if err = n.Check(context.Background()); err == nil {
			return
		}
		if time.Now().After(deadline) {
			break
		}
		<-time.After(200 * time.Millisecond)
	}
	w.contradict("Consistent", err.Error())
}

// checkLog looks for what a process says when it fails in a way that its program
// does not know of.
func (w *World) checkLog(n *Node) {
	text, err := os.ReadFile(filepath.Join(n.dir, n.name+".log"))
	if err != nil {
		w.t.Errorf("%v", err)
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if _, from, found := bytes.Cut(text, []byte(sign)); found {
			w.contradict("Alive", fmt.Sprintf("the log of node %s says: %s%s", n.name, sign, from[:min(len(from), 4096)]))
		}
	}
}

// contradict notes what no validator can see in a recording.
func (w *World) contradict(guarantee, text string) {
	w.found = append(w.found, check.Contradiction{Guarantee: guarantee, Text: text, Event: record.Event{At: w.to.Since()}})
}
