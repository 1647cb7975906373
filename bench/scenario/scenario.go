package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/report"
)

// Scenario is a question, and how it is answered.
type Scenario struct {
	Name string
	// Answers is the question, as a sentence.
	Answers string
	// Setups are what is measured, one after the other.
	Setups []report.Setup
	Steps  []Step
	// Targets are compared unless others are asked for; the first is the
	// reference.
	Targets []string
}

// Action is what a step does.
type Action string

// The vocabulary of steps.
const (
	Connect Action = "connect" // all clients connect, and get everything
	Wait    Action = "wait"    // nothing is done, For a time
	Change  Action = "change"  // Count changes, one each Interval
	Storm   Action = "storm"   // all clients, or Count of them, connect anew, over the time For, or all at once
	Down    Action = "down"    // the origin goes away
	Up      Action = "up"      // the origin comes back
	Restart Action = "restart" // the target's nodes restart, one after the other
	Release Action = "release" // a cluster changes, and clients react to it; a rollout policy may hold it back
)

// Step is a part of a scenario.
type Step struct {
	// Name is the step's in reports; one without a name is not in reports.
	Name string
	Do   Action
	For  time.Duration
	// Change, Interval and Count are those of changes. Interval and Count may be
	// 0 for the usual. A storm's Count may be 0 for all clients.
	Change   content.Change
	Interval time.Duration
	Count    int
	// Cold says that a storm's clients come without the versions that they had.
	Cold bool
	// Percent is how much of the resources changes while the clients of a storm are away.
	Percent int
	// React is how clients react to a release: one of [fleet.Reaction], or reactErrors. Without a
	// rollout policy they accept it. Within is how long clients stay that leave.
	React  string
	Within time.Duration
	// Partial says that it is no failure if some clients do not get what they
	// wait for in the time For.
	Partial bool
}

// The usual schedule of changes.
const (
	usualInterval = time.Second
	usualCount    = 10
)

// Find returns the scenario of a name.
func Find(name string) (Scenario, error) {
	all := All()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		return Scenario{}, fmt.Errorf("unknown scenario %q, expected one of %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Named returns the scenario of a name, or all of a group: those whose names begin with it and a dash.
func Named(name string) ([]Scenario, error) {
	var group []Scenario
	for _, s := range All() {
		if s.Name == name {
			return []Scenario{s}, nil
		}
		if strings.HasPrefix(s.Name, name+"-") {
			group = append(group, s)
		}
	}
	if len(group) == 0 {
		_, err := Find(name)
		return nil, err
	}
	return group, nil
}

// Override replaces parts of a scenario; what is zero stays as it is.
type Override struct {
	Variants  []string // delta and sotw
	Clients   []int
	Keys      []int
	Resources []int
	Slow      []float64 // percent
	Stuck     []float64 // percent
	Targets   []string
	// Duration is how long the changes of a step take, and how long a named step
	// waits in which nothing is done.
	Duration time.Duration
	// Interval is the time between changes.
	Interval time.Duration
}

// Apply returns the scenario with the parts replaced. Of several numbers, each
// is measured with each of the others.
func (s Scenario) Apply(o Override) (Scenario, error) {
	if o.Duration < 0 || o.Interval < 0 {
		return s, fmt.Errorf("scenario %s: a duration of %v and an interval of %v, expected neither below 0", s.Name, o.Duration, o.Interval)
	}
	setups := s.Setups
	setups = replace(setups, o.Variants, func(s *report.Setup, v string) { s.Variant = v })
	setups = replace(setups, o.Resources, func(s *report.Setup, n int) { s.Resources = n })
	setups = replace(setups, o.Keys, func(s *report.Setup, n int) { s.Keys = n })
	setups = replace(setups, o.Slow, func(s *report.Setup, share float64) { s.Slow = share })
	setups = replace(setups, o.Stuck, func(s *report.Setup, share float64) { s.Stuck = share })
	setups = replace(setups, o.Clients, func(s *report.Setup, n int) { s.Clients = n })
	for _, setup := range setups {
		if err := check(setup); err != nil {
			return s, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	s.Setups = setups
	if len(o.Targets) > 0 {
		s.Targets = o.Targets
	}
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		s.Steps[i].override(o)
	}
	return s, nil
}

func (s *Step) override(o Override) {
	switch s.Do {
	case Change:
		if s.Interval == 0 {
			s.Interval = usualInterval
		}
		if s.Count == 0 {
			s.Count = usualCount
		}
		if o.Interval > 0 {
			s.Interval = o.Interval
		}
		if o.Duration > 0 {
			s.Count = max(1, int(o.Duration/s.Interval))
		}
	case Wait:
		if o.Duration > 0 && s.Name != "" {
			s.For = o.Duration
		}
	}
}

// replace makes one setup for each value out of each setup, without those that
// are then there twice.
func replace[V any](setups []report.Setup, values []V, set func(*report.Setup, V)) []report.Setup {
	if len(values) == 0 {
		return setups
	}
	var out []report.Setup
	for _, setup := range setups {
		for _, v := range values {
			s := setup
			set(&s, v)
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// check says what is wrong with a setup.
func check(s report.Setup) error {
	switch {
	case s.Variant != variantDelta && s.Variant != variantSotW:
		return fmt.Errorf("variant %q, expected %s or %s", s.Variant, variantDelta, variantSotW)
	case s.Clients < 1 || s.Clients > 1_000_000:
		return fmt.Errorf("%d clients, expected 1 to 1000000", s.Clients)
	case s.Nodes < 1 || s.Nodes > 100:
		return fmt.Errorf("%d nodes, expected 1 to 100", s.Nodes)
	case s.Tier && s.Nodes < 2:
		return fmt.Errorf("a tier of %d node, expected at least 2", s.Nodes)
	case s.TLS != "" && s.TLS != report.MTLS && s.TLS != report.MTLSTickets:
		return fmt.Errorf("TLS %q, expected %q or %q", s.TLS, report.MTLS, report.MTLSTickets)
	case s.Bake < 0 || s.Bake > 0 && !s.Kept:
		return fmt.Errorf("bakes of %d s, last known good %t, expected none, or both", s.Bake, s.Kept)
	case s.PerConnection < 0 || s.PerConnection > 1000:
		return fmt.Errorf("%d clients to a connection, expected 0 to 1000", s.PerConnection)
	case s.Slow < 0 || s.Stuck < 0 || s.Slow+s.Stuck > 100:
		return fmt.Errorf("%g %% slow and %g %% stuck clients, expected 0 to 100 together", s.Slow, s.Stuck)
	}
	spec := specOf(s)
	return spec.Validate()
}

// specOf is what is served in a setup.
func specOf(s report.Setup) content.Spec {
	return content.Spec{
		Keys: s.Keys, Clusters: s.Resources, Listeners: s.Listeners, Size: s.Size, EndpointSize: s.EndpointSize, Equal: s.Equal,
	}
}
