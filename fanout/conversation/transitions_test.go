package conversation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/internals/conversation.md instead of comparing it")

// page is where the table is shown.
const page = "../../docs/internals/conversation.md"

// TestTransitions walks every cell of the table, holds it against the rules B9, B12, B13, B14 and
// B16 as independent facts, and holds that the page shows it. With -update it writes the page.
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
		t.Errorf("%s is out of date: run go test ./fanout/conversation -args -update", page)
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
	for s := range reachable() {
		for name, wrong := range map[string]bool{
			"rejected before the first response":          s.Phase == None && s.Verdict != Clean,
			"a kind without an unanswered response":       !s.Unanswered() && s.Kind != Content,
			"tainted, and nothing is to be waited for":    s.Phase == Idle && s.Verdict == Tainted && !s.More,
			"content is unanswered while held":            s.Unanswered() && s.Verdict == Held && s.Kind != Notes && s.Kind != Errors,
			"notes without a NACK":                        s.Kind == Notes && s.Verdict != Held,
			"a repetition of all that is rejected itself": s.Kind == Repeat && s.Verdict != Clean,
		} {
			if wrong {
				t.Errorf("%v: %s", s, name)
			}
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
		n := 0
		for _, differs := range []bool{s.Phase != c.to.Phase, s.Verdict != c.to.Verdict, s.Kind != c.to.Kind, s.More != c.to.More} {
			if differs {
				n++
			}
		}
		if n == 1 {
			all = append(all, cell{s, c.effect, true})
		}
	}
	for bit := Accept; bit <= Uncross && bit != 0; bit <<= 1 {
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
	b.WriteString("<!-- Made from the code by go test ./fanout/conversation -args -update. -->\n\n# Conversation: the states of a type on a stream\n\n")
	b.WriteString("Package [fanout/conversation](../../fanout/conversation/doc.go) keeps one conversation for each resource type of a stream. " +
		"A state names the phase of the newest response, the verdict on what the client was sent, the kind of the newest response unless it is content, and `+parts` if parts are to follow it.\n\n")
	fmt.Fprintf(&b, "%d of %d combinations can be reached. In a cell, – means that the state does not change, and an empty cell that the event is illegal: it panics in builds with the race detector. After the state come the effects.\n", len(live), states)
	for _, group := range []struct {
		title string
		of    []Event
	}{
		{"Responses", []Event{SentContent, SentPart, SentOnDemand, SentNotes, SentErrors}},
		{"No response", []Event{Skipped, SkippedPart, NoNews, TableSwitched}},
		{"Requests", []Event{ACK, NACK, LateNACK, Unsubscribe}},
		{"No answer", []Event{AckTimeout, Forgotten}},
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
	b.WriteString("\n## Reasons to wait\n\nWhat `status CLIENT` and the live page show as the reason why a client was not sent a type.\n\n| Reason | Shown as |\n|---|---|\n")
	for r := range reasons {
		fmt.Fprintf(&b, "| %s | %s |\n", reasonTitles[r], r)
	}
	return b.String()
}

var (
	effectNames    = [...]string{"accept", "taint", "hold", "settle", "record", "cross", "uncross"}
	effectMeanings = [...]string{
		"the client has accepted all that it was sent",
		"the client rejects the content of the newest response; changes since then are news",
		"the content from the rejected generation on counts as unsent, so that it is sent with the next news (B16)",
		"the bytes of unanswered responses are free",
		"the reason of the NACK is recorded",
		"the client has dropped something that an unanswered response may have, so removals that depend on it wait",
		"no unanswered response has what was dropped",
	}
	reasonTitles = [reasons]string{
		"NothingNew", "NotSubscribed", "Unknown", "OriginUnreachable", "Restoring", "AwaitingAck", "AwaitingHead", "Ordered", "HeldAfterNack", "Blocked",
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
