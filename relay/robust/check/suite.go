package check

import (
	"fmt"
	"time"

	"xdsrelay/relay/robust/record"
)

// Options say which guarantees apply to a run.
type Options struct {
	// Tier says that the nodes are one tier, so that the origin sees one stream for
	// each key; otherwise each node has its own.
	Tier bool
	// Digests says that clients are told content digests as versions, as with a
	// delta origin: equal content then has equal versions (K11).
	Digests bool
	// Hold is for how long the relays hold back mass removals, and with them what the
	// resources that stay refer to, also what was removed a moment before (K16); 0 if they
	// do not.
	Hold time.Duration
}

// validator is one guarantee.
type validator interface {
	// name is the guarantee's.
	name() string
	// check says in which ways an event contradicts the guarantee. The model is as
	// it was before the event.
	check(m *Model, e *record.Event) []string
}

// settler is a guarantee about times of rest.
type settler interface {
	validator
	// unsettled lists what is not at rest yet.
	unsettled(m *Model) []string
}

// Contradiction is a guarantee that did not hold.
type Contradiction struct {
	Guarantee string
	Event     record.Event // the one that contradicts it
	Text      string
}

func (c Contradiction) String() string {
	return fmt.Sprintf("%s: %s\n    at %s", c.Guarantee, c.Text, &c.Event)
}

// Suite is all validators at work on one recording. It belongs to one goroutine.
type Suite struct {
	model      *Model
	validators []validator
}

// New makes a suite for a recording that has not begun.
func New(o Options) *Suite {
	s := &Suite{model: newModel(), validators: []validator{
		converges{}, newOrdered(o.Hold), isolated{}, noPhantom{}, deleteOnlyIfDeleted{}, newResumable(o.Digests, o.Hold > 0), noDrop{},
	}}
	if o.Tier {
		s.validators = append(s.validators, oneStream{})
	}
	return s
}

// Guarantees are the names of the validators at work.
func (s *Suite) Guarantees() (names []string) {
	for _, v := range s.validators {
		names = append(names, v.name())
	}
	return names
}

// Observe takes the next event, and returns what it contradicts.
func (s *Suite) Observe(e *record.Event) (found []Contradiction) {
	for _, v := range s.validators {
		for _, text := range v.check(s.model, e) {
			found = append(found, Contradiction{Guarantee: v.name(), Event: *e, Text: text})
		}
	}
	s.model.apply(e)
	return found
}

// Unsettled lists what a [record.Rest] would contradict now.
func (s *Suite) Unsettled() (open []string) {
	for _, v := range s.validators {
		if v, ok := v.(settler); ok {
			open = append(open, v.unsettled(s.model)...)
		}
	}
	return open
}

// Unconverged lists what a [record.Held] would contradict now.
func (s *Suite) Unconverged() []string { return converges{}.unsettled(s.model) }

// Model is what the recording says so far.
func (s *Suite) Model() *Model { return s.model }

// atRest makes a validator of what must be settled at times of rest.
func atRest(v settler, m *Model, e *record.Event) []string {
	if e.Kind != record.Rest {
		return nil
	}
	return v.unsettled(m)
}
