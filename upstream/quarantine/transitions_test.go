package quarantine

import (
	"flag"
	"fmt"
	"testing"

	"xdsrelay/relay/transition/transitiontest"
)

var update = flag.Bool("update", false, "write docs/internals/quarantine.md instead of comparing it")

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

// TestReachableStates holds what no sequence of events can lead to.
func TestReachableStates(t *testing.T) {
	live := machine.Reachable()
	for _, s := range transitiontest.All(&transitions) {
		if want := s != (State{Main, Acquitted}); live[s] != want {
			t.Errorf("%v: reachable %v, expected %v", s, live[s], want)
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
	p := transitiontest.NewPage("quarantine.md", "upstream/quarantine", "Quarantine: the states of a type that a control plane may not know",
		"Some control planes end the whole stream when they receive a request for a type that they do not know. "+
			"Package [upstream/quarantine](../../upstream/quarantine/doc.go) keeps one state for each resource type that a key requests from one server. "+
			"A state names the place where the type is requested, and the verdict on it.")
	fmt.Fprintf(p, "\n%d of %d combinations can be reached. %s\n", len(machine.Reachable()), states, transitiontest.Legend)
	p.List("Places", "Place | The type is requested", placeNames[:], placeMeanings[:])
	p.List("Verdicts", "Verdict | Meaning", verdictNames[:], verdictMeanings[:])
	machine.Grid(p, "Clients and responses", Wanted, Answered)
	machine.Grid(p, "The main stream", Outlived, Suspected, Convicted, Precaution, Closed)
	machine.Grid(p, "The probe stream opens", ProbeStarted, ProbeFailed, ProbeOpened, NothingWanted)
	machine.Grid(p, "The probe stream ends", ProbeRenewed, ProbeEnded, ProbeBlamed, Released)
	p.List("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	return p
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
