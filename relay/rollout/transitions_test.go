package rollout

import (
	"flag"
	"fmt"
	"testing"

	"xdsrelay/relay/transition/transitiontest"
)

var update = flag.Bool("update", false, "write docs/internals/rollout.md instead of comparing it")

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
		want := s.IsUnderWay() && s.Need != Nothing
		switch s.Phase {
		case Idle:
			want = s.Need == Nothing
		case Settling:
			want = s.Need == Quiet
		case Proving:
			want = s.Need == Bake
		case Held:
			want = s.Need == Nothing || s.Need == Quiet
		}
		if live[s] != want {
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
	if want := 4000; mutants < want {
		t.Errorf("%d mutants, expected at least %d", mutants, want)
	}
}

// TestBrakes holds that nothing widens while a brake is set, and that what narrows does not depend
// on brakes.
func TestBrakes(t *testing.T) {
	for i, s := range transitiontest.All(&transitions) {
		for e := range events {
			c := transitions.Cell(e, i)
			widens := e == Chosen || e == Promoted || e == Cut || e == Passed
			if s.Brake == Braked && c.Legal && widens {
				t.Errorf("%v while %v is legal", e, s)
			}
			narrows := e == Failed || e == Aborted || e == Withdrawn || e == Undone
			if other := (State{s.Phase, s.Need, 1 - s.Brake}); narrows && transitions.Cell(e, other.index()).Legal != c.Legal {
				t.Errorf("%v while %v depends on the brake", e, s)
			}
		}
	}
}

func page() *transitiontest.Page {
	p := transitiontest.NewPage("rollout.md", "relay/rollout", "Rollout: the states of a key whose changes reach a few clients first",
		"A policy can release a change of the control plane step by step. "+
			"Package [relay/rollout](../../relay/rollout/doc.go) keeps one state for each key. "+
			"A state names the phase of the newest revision, what that needs next, and whether a brake is set.")
	fmt.Fprintf(p, "\n%d of %d combinations can be reached. %s\n", len(machine.Reachable()), states, transitiontest.Legend)
	p.List("Phases", "Phase | Meaning", phaseNames[:], phaseMeanings[:])
	p.List("Needs", "Need | What has to happen next", append([]string{"(none)"}, needNames[1:]...), needMeanings[:])
	machine.Grid(p, "The control plane", Changed, Withdrawn, Cut, CutSame, CutRefused)
	machine.Grid(p, "A step", Approved, Granted, Chosen, Promoted, Passed)
	machine.Grid(p, "A step fails or is ended", Failed, Aborted, Skipped, Undone)
	machine.Grid(p, "Brakes", Stopped, Released)
	p.List("Events", "Event | Meaning", eventNames[:], eventMeanings[:])
	p.List("Effects", "Effect | Meaning", effectNames[:], effectMeanings[:])
	return p
}

var (
	phaseMeanings = [phases]string{
		"all clients have what the control plane sent",
		"changes are pending, and the next revision is not cut yet",
		"the revision is sent to one client for each software version",
		"it is sent to a share of the clients; the last step is all of them",
		"all clients have it, and the final bake is not over",
		"a revision was refused, and nothing new is released",
	}
	needMeanings = [needs]string{
		"nothing: the phase lasts until something happens",
		"the control plane is quiet, so that a revision is cut; while one is on its way, a newer one is about to supersede it",
		"an operator, or the policy, approves the step",
		"the budget grants the clients of the step",
		"the canaries are chosen, and the step is written to the record",
		"the bake ends with a verdict that passes",
	}
	eventMeanings = [events]string{
		"gated content of the control plane has changed, or is to be tried again",
		"the control plane is back at the stable content",
		"a revision was cut that is neither the one on its way nor refused",
		"the revision that was cut is the one on its way",
		"the revision that was cut is refused",
		"an operator, or the policy, approves the step",
		"the budget has granted the tokens of the step",
		"its canaries are chosen and written to the record",
		"the record has the step to all clients",
		"the bake is over, and the verdict passes", "the bake is over, and at least twice as many clients are affected as when the canaries were chosen",
		"a verdict fails",
		"an operator ends the rollout",
		"an operator promotes without checks",
		"an operator returns all clients to the revision before",
		"the first brake is set: frozen, paused, Redis unreachable, no owner, mixed versions",
		"the last brake is gone",
	}
	effectNames    = [...]string{"rollback", "promote", "undo", "refuse", "report", "prove", "rebake", "advance"}
	effectMeanings = [...]string{
		"all canaries return to the stable revision; with `on_fail: hold`, not after a failure",
		"the revision becomes the stable one, for all clients",
		"the revision before the stable one becomes stable, for all clients; with `on_fail: hold`, not after a failure",
		"the digest is not tried again until an operator orders it",
		"operators and the control plane are informed of the failure",
		"the stable revision is good, so it becomes last known good",
		"the bake begins, or begins again",
		"the next step follows",
	}
)
