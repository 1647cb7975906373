package confidence

import (
	"flag"
	"fmt"
	"testing"

	"xdsrelay/relay/transition"
	"xdsrelay/relay/transition/transitiontest"
)

var update = flag.Bool("update", false, "write docs/internals/confidence.md instead of comparing it")

// TestTransitions walks every cell of both tables, holds it against the rules as independent facts,
// and holds that the page shows it. With -update it writes the page.
func TestTransitions(t *testing.T) {
	if err := machine.Agrees(&transitions); err != nil {
		t.Error(err)
	}
	if err := answersAgree(&answers); err != nil {
		t.Error(err)
	}
	if err := page().Compare(*update); err != nil {
		t.Error(err)
	}
}

// TestRows holds that no two rows match the same state and event, or the same state and question,
// and that each matches a state that can be reached.
func TestRows(t *testing.T) {
	for _, err := range append(machine.Rows(), transitiontest.Rows(&answers, machine.Reachable())...) {
		t.Error(err)
	}
}

// TestReachableStates holds what no sequence of events can lead to: clients wait only for content
// that may be old.
func TestReachableStates(t *testing.T) {
	live := machine.Reachable()
	for _, s := range transitiontest.All(&transitions) {
		if want := dubious.Has(s.Basis) || open.Has(s.Wait); live[s] != want {
			t.Errorf("%v: reachable %v, expected %v", s, live[s], want)
		}
	}
}

// TestMutations changes each entry of the tables that can be reached, each part of it by itself, and
// holds that the walks of TestTransitions catch each change.
func TestMutations(t *testing.T) {
	mutants, unnoticed := machine.Mutate()
	for s := range machine.Reachable() {
		for q := range questions {
			was := answers.Cell(q, s.index())
			for is := No; is <= AfterSilence; is++ {
				if is == was.Output {
					continue
				}
				mutants++
				if answersAgree(answers.With(q, s.index(), transition.Cell[State, Answer]{To: s, Output: is, Legal: true})) == nil {
					unnoticed = append(unnoticed, fmt.Errorf("%v while %v: %v instead of %v goes unnoticed", q, s, is, was.Output))
				}
			}
		}
	}
	for _, err := range unnoticed {
		t.Error(err)
	}
	if want := 4000; mutants < want {
		t.Errorf("%d mutants, expected at least %d", mutants, want)
	}
}

func page() *transitiontest.Page {
	p := transitiontest.NewPage("confidence.md", "relay/cache/confidence", "Confidence: what a stream's copy of a type is worth",
		"A relay has content that the control plane may have changed since. It serves that content, but draws no conclusions from it until the control plane has answered. "+
			"Package [relay/cache/confidence](../../relay/cache/confidence/doc.go) keeps one state for each resource type of a key and each of its upstream streams. "+
			"A state names the basis of the content, and what is awaited.")
	live := machine.Live()
	fmt.Fprintf(p, "\n%d of %d combinations can be reached. %s\n", len(live), states, transitiontest.Legend)
	p.List("Bases", "Basis | The content", basisNames[:], basisMeanings[:])
	p.List("Waits", "Wait | Meaning", waitNames[:], waitMeanings[:])
	machine.Grid(p, "The control plane is asked, and answers", Answered, PartAnswered, AskedAgain, AskedMore)
	machine.Grid(p, "The content becomes doubtful", Moved, Resumed, ResumedEmpty, Woke, CopyRestored, NamesAssumed)
	machine.Grid(p, "Waits begin and end", HoldBegan, HoldEnded, Released, StayedUp)
	p.List("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	p.List("Questions", "Question | Meaning", questionNames[:], questionMeanings[:])
	fmt.Fprintf(p, "\n“Until silence” means yes until an answer has been awaited for %v, and “after silence” yes from then on. In an empty cell the answer is no.\n", Silence)
	transitiontest.Grid(p, "Answers", questionNames[:], live, func(s State, i int) string {
		if is := answers.Output(Question(i), s.index()); is != No {
			return is.String()
		}
		return ""
	})
	return p
}

var (
	basisMeanings = [bases]string{
		"the control plane has never answered, and nothing was restored",
		"is the control plane's last complete answer",
		"the control plane has never answered, and names count as absent because of that",
		"is from before the key was idle, when the stream had no resources",
		"is from another node or another server",
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
		"is the silence of the stream about a name an answer, if it has ever answered for the type?",
	}
)
