package confidence

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/internals/confidence.md instead of comparing it")

// page is where the tables are shown.
const page = "../../../docs/internals/confidence.md"

// TestTransitions walks every cell of both tables, holds it against the rules as independent facts,
// and holds that the page shows it. With -update it writes the page.
func TestTransitions(t *testing.T) {
	if err := walk(transitions, agrees); err != nil {
		t.Error(err)
	}
	if err := answersAgree(&answers); err != nil {
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
		t.Errorf("%s is out of date: run go test ./relay/cache/confidence -args -update", page)
	}
}

// TestRows holds that no two rows match the same state and event, or the same state and question,
// and that each matches a state that can be reached.
func TestRows(t *testing.T) {
	used, usedRules := make([]bool, len(rows)), make([]bool, len(rules))
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
		answered := make(map[Question]int)
		for i, r := range rules {
			if r.basis.has(uint8(s.Basis)) && r.wait.has(uint8(s.Wait)) {
				if other, dup := answered[r.ask]; dup {
					t.Errorf("%v while %v matches rules %d and %d", r.ask, s, other, i)
				}
				answered[r.ask] = i
				usedRules[i] = usedRules[i] || live[s]
			}
		}
	}
	for i, u := range used {
		if !u {
			t.Errorf("row %d (%v) matches no state that can be reached", i, rows[i].on)
		}
	}
	for i, u := range usedRules {
		if !u {
			t.Errorf("rule %d (%v) matches no state that can be reached", i, rules[i].ask)
		}
	}
}

// TestReachableStates holds what no sequence of events can lead to: clients wait only for content
// that may be old.
func TestReachableStates(t *testing.T) {
	live := reachable()
	for s := range allStates {
		if want := dubious.has(uint8(s.Basis)) || open.has(uint8(s.Wait)); live[s] != want {
			t.Errorf("%v: reachable %v, expected %v", s, live[s], want)
		}
	}
}

// TestMutations changes each entry of the tables that can be reached, each part of it by itself, and
// holds that the walks of TestTransitions catch each change.
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
		for q := range questions {
			for is := No; is <= AfterSilence; is++ {
				mutated := answers
				if mutated[q][s.index()] == is {
					continue
				}
				mutated[q][s.index()] = is
				mutants++
				if answersAgree(&mutated) == nil {
					t.Errorf("%v while %v: %v instead of %v goes unnoticed", q, s, is, answers[q][s.index()])
				}
			}
		}
	}
	if want := 4000; mutants < want {
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
		if (s.Basis != c.to.Basis) != (s.Wait != c.to.Wait) {
			all = append(all, cell{s, c.effect, true})
		}
	}
	for bit := Wake; bit <= Reset; bit <<= 1 {
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
	b.WriteString("<!-- Made from the code by go test ./relay/cache/confidence -args -update. -->\n\n# Confidence: what a stream's copy of a type is worth\n\n")
	b.WriteString("A relay has content that the control plane may have changed since. It serves that content, but draws no conclusions from it until the control plane has answered. " +
		"Package [relay/cache/confidence](../../relay/cache/confidence/doc.go) keeps one state for each resource type of a key and each of its upstream streams. " +
		"A state names the basis of the content, and what is awaited.\n\n")
	fmt.Fprintf(&b, "%d of %d combinations can be reached. In a cell, – means that the state does not change, and an empty cell that the event is illegal: it panics in builds with the race detector. After the state come the effects.\n", len(live), states)
	list := func(title, head string, names, meanings []string) {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|---|---|\n", title, head)
		for i, means := range meanings {
			fmt.Fprintf(&b, "| %s | %s |\n", names[i], means)
		}
	}
	list("Bases", "Basis | The content", basisNames[:], basisMeanings[:])
	list("Waits", "Wait | Meaning", waitNames[:], waitMeanings[:])
	grid := func(title string, columns []string, cell func(s State, column int) string) {
		fmt.Fprintf(&b, "\n## %s\n\n| State | %s |\n|---|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for s := range allStates {
			if !live[s] {
				continue
			}
			fmt.Fprintf(&b, "| %v |", s)
			for i := range columns {
				fmt.Fprintf(&b, " %s |", cell(s, i))
			}
			b.WriteString("\n")
		}
	}
	for _, group := range []struct {
		title string
		of    []Event
	}{
		{"The control plane is asked, and answers", []Event{Answered, PartAnswered, AskedAgain, AskedMore}},
		{"The content becomes doubtful", []Event{Moved, Resumed, ResumedEmpty, Woke, CopyRestored, NamesAssumed}},
		{"Waits begin and end", []Event{HoldBegan, HoldEnded, Released, StayedUp}},
	} {
		columns := make([]string, len(group.of))
		for i, e := range group.of {
			columns[i] = e.String()
		}
		grid(group.title, columns, func(s State, i int) string { return shown(s, transitions[group.of[i]][s.index()]) })
	}
	list("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	list("Questions", "Question | Meaning", questionNames[:], questionMeanings[:])
	fmt.Fprintf(&b, "\n“Until silence” means yes until an answer has been awaited for %v, and “after silence” yes from then on. In an empty cell the answer is no.\n", Silence)
	grid("Answers", questionNames[:], func(s State, i int) string {
		if is := answers[i][s.index()]; is != No {
			return is.String()
		}
		return ""
	})
	return b.String()
}

var (
	basisMeanings = [bases]string{
		"the control plane has never answered, and nothing was restored",
		"is the control plane's last complete answer",
		"the control plane has never answered, and names count as absent because of that",
		"is from another node or another server, or from before the key was idle, when the stream had no resources",
		"is from before the process slept",
		"is from before the key was idle; the process may have slept since",
		"was restored in part, from last known good or from another node that had it",
	}
	waitMeanings = [waits]string{
		"nothing is awaited",
		"a new stream has not answered, or the owner of the key has more to send",
		"clients are not served until an answer arrives, or the hold ends",
		"both",
	}
	effectNames    = [...]string{"wake", "forget", "start", "mark", "reset"}
	effectMeanings = [...]string{
		"clients that waited may be served",
		"names that are absent in spite of the doubt no longer are",
		"the wait for an answer begins, or begins again",
		"the time to which the content is confirmed is remembered",
		"that time is forgotten",
	}
	questionMeanings = [questions]string{
		"must clients wait?",
		"may a name exist although the content lacks it, so that no client is sent its removal (K14)?",
		"was some of the content restored?",
		"may this node have missed updates that other nodes have received?",
		"may the content be older than that of another node that asks for it, so that it gets nothing that contradicts its own?",
		"does the control plane still have to answer before a node without a stream of its own may follow this one?",
		"is the content the control plane's last complete answer, with nothing awaited?",
		"is the content current for as long as the stream is established?",
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
