package link

import (
	"flag"
	"fmt"
	"testing"

	"xdsrelay/relay/transition/transitiontest"
)

var update = flag.Bool("update", false, "write docs/internals/link.md instead of comparing it")

// TestTransitions walks every cell of the table, holds it against the rules as independent facts,
// and holds that the page shows it. With -update it writes the page.
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

// TestReachableStates holds that all combinations can be reached.
func TestReachableStates(t *testing.T) {
	live := machine.Reachable()
	for _, s := range transitiontest.All(&transitions) {
		if !live[s] {
			t.Errorf("%v cannot be reached", s)
		}
	}
}

// TestMutations changes each entry of the table, each part of it by itself, and holds that the walk
// of TestTransitions catches each change.
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
	p := transitiontest.NewPage("link.md", "relay/cache/link", "Link: the states of an upstream stream",
		"Each key has one or more upstream streams. A stream leads to the control plane, or to the node that owns the key. "+
			"Package [relay/cache/link](../../relay/cache/link/doc.go) keeps one state for each of them. "+
			"A state names the target of the stream, its phase, and whether the other side was heard.")
	fmt.Fprintf(p, "\n%d of %d combinations can be reached. %s\n", len(machine.Reachable()), states, transitiontest.Legend)
	p.List("Targets", "Target | The stream leads", targetNames[:], targetMeanings[:])
	p.List("Phases", "Phase | Meaning", phaseNames[:], phaseMeanings[:])
	p.List("Voices", "Voice | Meaning", voiceNames[:], voiceMeanings[:])
	machine.Grid(p, "The stream begins and ends", Started, Up, Down, Released, Idled)
	machine.Grid(p, "The stream moves", Borrowed, Returned)
	machine.Grid(p, "Silence", Silenced, Responded, Slept)
	p.List("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	return p
}

var (
	targetMeanings = [targets]string{"to the control plane", "to the node that owns the key"}
	phaseMeanings  = [phases]string{
		"there is no stream, since nothing is wanted of it",
		"there is no stream, since the key is idle",
		"the first attempt is under way",
		"there is no stream, or the owner of the key cannot reach the control plane",
		"the same since before the process last slept: no attempt has ended since",
		"there is a stream, and the control plane can be reached over it",
	}
	voiceMeanings = [voices]string{
		"the other side has sent something, once the stream is established",
		"the stream counts as established by its silence alone, so it confirms nothing",
	}
	effectNames    = [...]string{"lose", "resume", "restart", "news", "back"}
	effectMeanings = [...]string{
		"the content is no longer confirmed from now on",
		"the content is confirmed again; after an interruption of 5s at most, it counts as confirmed all the time",
		"the time in the phase begins",
		"what the stream lacks may have changed",
		"other nodes that wait for the control plane are notified that it is reachable again",
	}
)
