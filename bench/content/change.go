package content

import (
	"fmt"
	"slices"
	"time"
)

// Kind is how much a change touches.
type Kind string

// The kinds of changes.
const (
	// One changes one resource of a type, in turn.
	One Kind = "one"
	// Burst changes several resources of a type, in turn.
	Burst Kind = "burst"
	// Full changes all resources.
	Full Kind = "full"
)

// Change is one change, of all keys unless it says otherwise.
type Change struct {
	Kind Kind `json:"kind"`
	// Resources is how many resources a burst changes, from 1 to as many as there
	// are. Other kinds do not have it.
	Resources int `json:"resources,omitempty"`
	// Type is the type that changes. Empty means clusters; for a full change,
	// all types.
	Type string `json:"type,omitempty"`
	// ClusterEvery says that every so many changes of one resource one is of a
	// cluster, whatever the type: those whose revision it divides. 0 means none.
	ClusterEvery int `json:"cluster_every,omitempty"`
	// OneKey says that each change is of one key, in turn, and not of all.
	OneKey bool `json:"one_key,omitempty"`
}

// Concerns says whether a revision changes something in a key, of so many.
func (c *Change) Concerns(revision uint64, key, keys int) bool {
	return !c.OneKey || revision%uint64(keys) == uint64(key)
}

// At is the change that a revision makes of a change.
func (c Change) At(revision uint64) Change {
	if c.ClusterEvery > 0 && revision%uint64(c.ClusterEvery) == 0 {
		c.Type = ClusterURL
	}
	c.ClusterEvery = 0
	return c
}

// TypeByName returns the type URL of a short name: cds, eds, lds or rds; and
// false for another.
func TypeByName(name string) (typeURL string, ok bool) {
	switch name {
	case "cds":
		return ClusterURL, true
	case "eds":
		return EndpointURL, true
	case "lds":
		return ListenerURL, true
	case "rds":
		return RouteURL, true
	}
	return "", false
}

// Validate says what is wrong with a change of what a spec describes.
func (c *Change) Validate(s *Spec) error {
	if c.Type != "" && s.Count(c.Type) == 0 {
		return fmt.Errorf("change: there are no resources of type %q", c.Type)
	}
	switch n := s.Count(c.types(s)[0]); {
	case c.Kind != One && c.Kind != Burst && c.Kind != Full:
		return fmt.Errorf("change: got kind %q, expected %s, %s or %s", c.Kind, One, Burst, Full)
	case c.Kind == Burst && (c.Resources < 1 || c.Resources > n):
		return fmt.Errorf("change: got a burst of %d resources, expected from 1 to %d", c.Resources, n)
	case c.Kind != Burst && c.Resources != 0:
		return fmt.Errorf("change: got %d resources, expected none for kind %s", c.Resources, c.Kind)
	case c.ClusterEvery < 0 || c.ClusterEvery > 0 && c.Kind != One:
		return fmt.Errorf("change: got a cluster every %d changes of kind %s, expected none, or 1 or more of kind %s", c.ClusterEvery, c.Kind, One)
	}
	return nil
}

// types are the types that a change touches.
func (c *Change) types(s *Spec) []string {
	switch {
	case c.Type != "":
		return []string{c.Type}
	case c.Kind == Full:
		return s.Types()
	}
	return []string{ClusterURL}
}

// State is which stamp each resource has at the time, the same in all keys. Changes of one key
// count as those of all, so once there was one, it is right only for what just changed. It is used
// by one goroutine at a time.
type State struct {
	spec     Spec
	revision Stamp
	stamps   map[string][]Stamp // by type
	turn     map[string]int     // by type: the next resource that changes in turn
}

// Step is what one change changes.
type Step struct {
	// Stamp is what the resources that it changes get.
	Stamp Stamp
	// Keys are the keys in which they change.
	Keys []int
	// Changed holds the numbers of these resources by type.
	Changed map[string][]int
}

// NewState is the first content, as of a time.
func NewState(spec Spec, at time.Time) *State {
	s := &State{spec: spec, revision: Stamp{At: at.Round(0)}, stamps: map[string][]Stamp{}, turn: map[string]int{}}
	for _, t := range spec.Types() {
		s.stamps[t] = slices.Repeat([]Stamp{s.revision}, spec.Count(t))
	}
	return s
}

// Spec is how much there is.
func (s *State) Spec() *Spec { return &s.spec }

// Revision is the stamp of the last change.
func (s *State) Revision() Stamp { return s.revision }

// Stamp is the stamp of resource i of a type.
func (s *State) Stamp(typeURL string, i int) Stamp { return s.stamps[typeURL][i] }

// Next makes a change that was intended for a time.
func (s *State) Next(c Change, at time.Time) (Step, error) {
	if err := c.Validate(&s.spec); err != nil {
		return Step{}, err
	}
	s.revision = Stamp{Revision: s.revision.Revision + 1, At: at.Round(0)}
	c = c.At(s.revision.Revision)
	step := Step{Stamp: s.revision, Changed: map[string][]int{}}
	for k := range s.spec.Keys {
		if c.Concerns(s.revision.Revision, k, s.spec.Keys) {
			step.Keys = append(step.Keys, k)
		}
	}
	for _, t := range c.types(&s.spec) {
		n, count := s.spec.Count(t), 1
		switch c.Kind {
		case Burst:
			count = c.Resources
		case Full:
			count = n
		}
		numbers := make([]int, count)
		for i := range numbers {
			numbers[i] = (s.turn[t] + i) % n
			s.stamps[t][numbers[i]] = s.revision
		}
		s.turn[t] = (s.turn[t] + count) % n
		step.Changed[t] = numbers
	}
	return step, nil
}
