package conversation

import (
	"flag"
	"fmt"
	"testing"

	"xdsrelay/relay/transition/transitiontest"
)

var update = flag.Bool("update", false, "write docs/internals/conversation.md instead of comparing it")

// TestTransitions walks every cell of the table, holds it against the rules B9, B12, B13, B14 and
// B16 as independent facts, and holds that the page shows it. With -update it writes the page.
func TestTransitions(t *testing.T) {
	if err := machine.Agrees(&transitions); err != nil {
		t.Error(err)
	}
	if err := page().Compare(*update); err != nil {
		t.Error(err)
	}
}

// TestRows holds that no two rows match the same state and event, and that each matches one that
// can be reached.
func TestRows(t *testing.T) {
	for _, err := range machine.Rows() {
		t.Error(err)
	}
}

// TestReachableStates holds what no sequence of events can lead to.
func TestReachableStates(t *testing.T) {
	for s := range machine.Reachable() {
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
	mutants, unnoticed := machine.Mutate()
	for _, err := range unnoticed {
		t.Error(err)
	}
	if want := 1000; mutants < want {
		t.Errorf("%d mutants, expected at least %d", mutants, want)
	}
}

func page() *transitiontest.Page {
	p := transitiontest.NewPage("conversation.md", "fanout/conversation", "Conversation: the states of a type on a stream",
		"Package [fanout/conversation](../../fanout/conversation/doc.go) keeps one conversation for each resource type of a stream. "+
			"A state names the phase of the newest response, the verdict on what the client was sent, the kind of the newest response unless it is content, and `+parts` if parts are to follow it.")
	fmt.Fprintf(p, "\n%d of %d combinations can be reached. %s\n", len(machine.Reachable()), states, transitiontest.Legend)
	machine.Grid(p, "Responses", SentContent, SentPart, SentOnDemand, SentNotes, SentErrors)
	machine.Grid(p, "No response", Skipped, SkippedPart, NoNews, TableSwitched)
	machine.Grid(p, "Requests", ACK, NACK, LateNACK, Unsubscribe)
	machine.Grid(p, "No answer", AckTimeout, Forgotten)
	p.List("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	p.WriteString("\n## Reasons to wait\n\nWhat `status CLIENT` and the live page show as the reason why a client was not sent a type.\n\n| Reason | Shown as |\n|---|---|\n")
	for r := range reasons {
		fmt.Fprintf(p, "| %s | %s |\n", reasonTitles[r], r)
	}
	return p
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
