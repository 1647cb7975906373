package quarantine

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/internals/quarantine.md instead of comparing it")

// page is where the table is shown.
const page = "../../docs/internals/quarantine.md"

// TestTransitions walks every cell of the table, holds it against the rules as independent facts,
// and holds that the page shows it. With -update it writes the page.
func TestTransitions(t *testing.T) {
	if err := walk(transitions, agrees); err != nil {
		t.Error(err)
	}
	text := render(reachable())
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(page); err != nil {
		t.Error(err)
	} else if string(was) != text {
		t.Errorf("%s is out of date: run go test ./upstream/quarantine -args -update", page)
	}
}

// TestRows holds that no two rows match the same state and event, and that each matches one that
// can be reached.
func TestRows(t *testing.T) {
	used := make([]bool, len(rows))
	live := reachable()
	for s := range allStates {
		matched := make(map[Event]int)
		for i := range rows {
			if r := &rows[i]; r.matches(s) {
				if other, dup := matched[r.on]; dup {
					t.Errorf("%v while %v matches rows %d and %d", r.on, s, other, i)
				}
				matched[r.on] = i
				used[i] = used[i] || live[s]
			}
		}
	}
	for i, u := range used {
		if !u {
			t.Errorf("row %d (%v) matches no state that can be reached", i, rows[i].on)
		}
	}
}

// TestReachableStates holds what no sequence of events can lead to.
func TestReachableStates(t *testing.T) {
	live := reachable()
	for s := range allStates {
		if want := s != (State{Main, Acquitted}); live[s] != want {
			t.Errorf("%v: reachable %v, expected %v", s, live[s], want)
		}
	}
}

// TestMutations changes each entry of the table that can be reached, each part of it by itself, and
// holds that the walk of TestTransitions catches each change.
func TestMutations(t *testing.T) {
	live, mutants := reachable(), 0
	for s := range live {
		for e := range events {
			was := transitions[e][s.index()]
			for _, c := range mutationsOf(was) {
				mutated := *transitions
				mutated[e][s.index()] = c
				mutants++
				if walk(&mutated, agrees) == nil {
					t.Errorf("%v while %v: %+v instead of %+v goes unnoticed", e, s, c, was)
				}
			}
		}
	}
	if want := 1000; mutants < want {
		t.Errorf("%d mutants, expected at least %d", mutants, want)
	}
}

// mutationsOf are the cells that differ from c in one part.
func mutationsOf(c cell) (all []cell) {
	all = append(all, cell{c.to, c.effect, !c.legal})
	if !c.legal {
		return all
	}
	for s := range allStates {
		if (s.Place != c.to.Place) != (s.Verdict != c.to.Verdict) {
			all = append(all, cell{s, c.effect, true})
		}
	}
	for bit := Report; bit <= Backoff; bit <<= 1 {
		all = append(all, cell{c.to, c.effect ^ bit, true})
	}
	return all
}

// reachable are the states that a sequence of legal events leads to.
func reachable() map[State]bool {
	all := make(map[State]bool)
	_ = walk(transitions, func(s State, _ Event, _ cell, _, _ flags) error {
		all[s] = true
		return nil
	})
	return all
}

// render is the page.
func render(live map[State]bool) string {
	var b strings.Builder
	b.WriteString("<!-- Made from the code by go test ./upstream/quarantine -args -update. -->\n\n# Quarantine: the states of a type that a control plane may not know\n\n")
	b.WriteString("Some control planes end the whole stream when they receive a request for a type that they do not know. " +
		"Package [upstream/quarantine](../../upstream/quarantine/doc.go) keeps one state for each resource type that a key requests from one server. " +
		"A state names the place where the type is requested, and the verdict on it.\n\n")
	fmt.Fprintf(&b, "%d of %d combinations can be reached. In a cell, – means that the state does not change, and an empty cell that the event is illegal: it panics in builds with the race detector. After the state come the effects.\n", len(live), states)
	b.WriteString("\n## Places\n\n| Place | The type is requested |\n|---|---|\n")
	for i, means := range placeMeanings {
		fmt.Fprintf(&b, "| %s | %s |\n", placeNames[i], means)
	}
	b.WriteString("\n## Verdicts\n\n| Verdict | Meaning |\n|---|---|\n")
	for i, means := range verdictMeanings {
		fmt.Fprintf(&b, "| %s | %s |\n", verdictNames[i], means)
	}
	for _, group := range []struct {
		title string
		of    []Event
	}{
		{"Clients and responses", []Event{Wanted, Answered}},
		{"The main stream", []Event{Outlived, Suspected, Convicted, Precaution, Closed}},
		{"The probe stream opens", []Event{ProbeStarted, ProbeFailed, ProbeOpened, NothingWanted}},
		{"The probe stream ends", []Event{ProbeRenewed, ProbeEnded, ProbeBlamed, Released}},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| State |", group.title)
		for _, e := range group.of {
			fmt.Fprintf(&b, " %v |", e)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(group.of)) + "\n")
		for s := range allStates {
			if !live[s] {
				continue
			}
			fmt.Fprintf(&b, "| %v |", s)
			for _, e := range group.of {
				fmt.Fprintf(&b, " %s |", shown(s, transitions[e][s.index()]))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n## Effects\n\n| Effect | Meaning |\n|---|---|\n")
	for i, means := range effectMeanings {
		fmt.Fprintf(&b, "| %s | %s |\n", effectNames[i], means)
	}
	return b.String()
}

var (
	placeMeanings = [places]string{
		"on the main stream of the key",
		"nowhere, until the next probe is due",
		"nowhere, since no client wants it",
		"nowhere, while the probe stream for it is being opened",
		"on the probe stream",
	}
	verdictMeanings = [verdicts]string{
		"nothing is known; a quarantined type is off the main stream as a precaution",
		"streams have ended after requests for the type; operators were informed if it is quarantined",
		"the server has answered, or the request did not end its stream within 5s",
		"harmless and still quarantined, and operators were informed that the type seems to end streams",
	}
	effectNames    = [...]string{"report", "show", "hide", "clear", "delay", "backoff"}
	effectMeanings = [...]string{
		"operators are informed that the type seems to end streams",
		"the type is added to what operators see as quarantined",
		"the type is removed from what operators see as quarantined",
		"operators are informed that the type is harmless",
		"the next probe is due after the pause; without this effect, at once",
		"the pause after that is twice as long, 5m at most",
	}
)

// shown is a cell of the page.
func shown(s State, c cell) string {
	if !c.legal {
		return ""
	}
	text := c.to.String()
	if c.to == s {
		text = "–"
	}
	var effects []string
	for i, name := range effectNames {
		if c.effect&(1<<i) != 0 {
			effects = append(effects, name)
		}
	}
	if len(effects) > 0 {
		text += ": " + strings.Join(effects, ", ")
	}
	return text
}
