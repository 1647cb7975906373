package sim

import "time"

// Shrink makes a plan that fails as short as it can: it leaves out events, and makes the
// rest smaller, as long as what is left still fails. fails runs a plan; it may be wrong
// now and then, as goroutines take turns as they like, but a plan that Shrink returns has
// failed. It ends when nothing more can be left out, or when more says so.
func Shrink(plan Plan, fails func(Plan) bool, more func() bool) Plan {
	s := shrinker{plan: plan, fails: fails, more: more}
	for changed := true; changed && more(); {
		changed = s.events()
		changed = s.end() || changed
		changed = s.setup() || changed
		changed = s.durations() || changed
	}
	return s.plan
}

// shrinker is a plan on its way.
type shrinker struct {
	plan  Plan
	fails func(Plan) bool
	more  func() bool
}

// try takes a plan if it fails.
func (s *shrinker) try(p Plan) bool {
	if !s.more() || !s.fails(p) {
		return false
	}
	s.plan = p
	return true
}

// events leaves out events: half of them at a time, then a quarter, and so on, down to
// each by itself.
func (s *shrinker) events() (changed bool) {
	for size := (len(s.plan.Events) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.plan.Events); {
			p := s.plan
			p.Events = append(append([]Event(nil), p.Events[:from]...), p.Events[min(from+size, len(p.Events)):]...)
			if s.try(p) {
				changed = true
			} else {
				from += size
			}
		}
	}
	return changed
}

// end ends the plan right after its last event.
func (s *shrinker) end() bool {
	p := s.plan
	last := time.Second
	for _, e := range p.Events {
		last = max(last, e.End()+time.Second)
	}
	if last >= p.Length {
		return false
	}
	p.Length = last
	return s.try(p)
}

// setup makes the world smaller.
func (s *shrinker) setup() (changed bool) {
	for _, smaller := range []func(*Setup) bool{
		func(p *Setup) bool { return less(&p.Keys, 1) },
		func(p *Setup) bool { return less(&p.Clients, 1) },
		func(p *Setup) bool { return less(&p.Polls, 0) },
		func(p *Setup) bool { return less(&p.Size, 1) },
		func(p *Setup) bool { return less(&p.Nodes, 1) },
		func(p *Setup) bool { was := p.Guard; p.Guard = false; return was },
		func(p *Setup) bool { was := p.Kept != "none"; p.Kept = "none"; return was },
	} {
		for {
			p := s.plan
			if !smaller(&p.Setup) || !s.try(p) {
				break
			}
			changed = true
		}
	}
	return changed
}

func less(n *int, least int) bool {
	if *n <= least {
		return false
	}
	*n--
	return true
}

// durations makes what happens start sooner and last for a shorter time.
func (s *shrinker) durations() (changed bool) {
	for i := range s.plan.Events {
		for _, sooner := range []func(*Event) bool{
			func(e *Event) bool {
				was := e.For > time.Second
				e.For = (e.For / 2).Round(100 * time.Millisecond)
				return was
			},
		} {
			p := s.plan
			p.Events = append([]Event(nil), p.Events...)
			if sooner(&p.Events[i]) && s.try(p) {
				changed = true
			}
		}
	}
	return s.gap() || changed
}

// gap takes out the time before the first event.
func (s *shrinker) gap() bool {
	if len(s.plan.Events) == 0 {
		return false
	}
	first := s.plan.Events[0].At - time.Second
	if first <= 0 {
		return false
	}
	p := s.plan
	p.Events = append([]Event(nil), p.Events...)
	for i := range p.Events {
		p.Events[i].At -= first
	}
	p.Length -= first
	return s.try(p)
}
