package rollout

import (
	"errors"
	"fmt"
	"slices"
)

// maxSteps bounds the number of a step in a record: no policy has more.
const maxSteps = 1000

// Check returns what is wrong with a record that was read; nil if nothing is. Others may write where it is
// stored.
func (r *Record) Check() error {
	switch step := r.Run.Step; {
	case r.Reached >= phases:
		return fmt.Errorf("phase %d of a rollout, expected 0 to %d", r.Reached, phases-1)
	case step < 0 || step > maxSteps, r.Reached == Scouting && step != 0, r.Reached == Stepping && step == 0:
		return fmt.Errorf("step %d of a rollout in the phase %v", step, r.Reached)
	case r.Why.Outcome >= Outcome(len(outcomeNames)) || slices.ContainsFunc(r.Why.Findings, func(f Finding) bool {
		return f.Outcome >= Outcome(len(outcomeNames)) || f.Signal >= Signal(len(signalNames))
	}):
		return errors.New("a verdict about a rollout with an unknown outcome or signal")
	case r.Run.Affected < 0 || r.Run.Repeats < 0:
		return fmt.Errorf("%d affected clients and %d repeats of a rollout, expected none below 0", r.Run.Affected, r.Run.Repeats)
	case len(r.Refused) > MaxRefused || len(r.Former) > MaxUndo:
		return fmt.Errorf("%d refused and %d former revisions, expected at most %d and %d", len(r.Refused), len(r.Former), MaxRefused, MaxUndo)
	}
	for _, roster := range []*Roster{&r.Run.Canaries, &r.Run.Control, &r.Lost} {
		if !slices.IsSorted(roster.Hashes) {
			return fmt.Errorf("a roster of %d clients that is not sorted", len(roster.Hashes))
		}
	}
	return nil
}
