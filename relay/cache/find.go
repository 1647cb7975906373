package cache

import (
	"slices"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/redact"
)

// Interest is how a subscription includes a resource.
type Interest string

// The interests.
const (
	InName     Interest = "name"     // by its name or an alias
	InGlob     Interest = "glob"     // by the glob of its collection (G6)
	InWildcard Interest = "wildcard" // as a member of the wildcard set
)

// NamesLike returns the canonical names that the table has, has removed lately, or asks for, and that match,
// sorted: at most so many. The cost is that of calling match with each name of the table, in steps.
func (t *Table) NamesLike(match func(name string) bool, most int) (names []string, more bool) {
	add := func(name string) bool {
		if match(name) {
			names = append(names, name)
		}
		return len(names) <= 2*most // a name is in both maps at most
	}
	for name := range t.core.entriesInSteps(t.mu.reading()) {
		if !add(name) {
			break
		}
	}
	for name := range t.core.interestsInSteps(t.mu.reading()) {
		if !add(name) {
			break
		}
	}
	t.mu.RLock()
	for name := range t.core.rejected {
		if !add(name) {
			break
		}
	}
	t.mu.RUnlock()
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > most {
		return names[:most], true
	}
	return names, false
}

// Find describes one canonical name. ok is false if the table neither has it nor asks for it.
func (t *Table) Find(name string) (i NameInfo, ok bool) {
	t.mu.RLock()
	e, w := t.core.store.Get(name), t.core.demand.Get(name)
	stream := Nobody
	switch {
	case e != nil:
		i = t.core.describe(e)
	case w == nil && t.core.rejected[name] == nil:
		t.mu.RUnlock()
		return i, false
	default:
		i.Name = t.core.called(name)
		switch t.core.trouble(name, &i); {
		case i.Problem != nil || i.Standing == Failed:
		case w.Stream() == Nobody, t.core.isGlob(name) && !t.core.demand.Open(w, name):
			i.Standing = Absent
		default:
			stream = w.Stream()
		}
	}
	t.mu.RUnlock()
	if i.Standing == Failed {
		i.Problem = &Problem{Message: redact.Short(i.failure.Message(), maxMessage)}
	}
	if stream != Nobody {
		if up := t.group.upstreamOf(stream); up.Err != nil {
			i.Standing, i.Problem = Unreachable, &Problem{At: up.Since, Message: redact.Error(up.Err)}
		}
	}
	return i, true
}

// NamePosition is what a subscription sees of one name, compared with an earlier generation.
type NamePosition struct {
	Lack

	// Interest is empty if the subscription does not include the name.
	Interest Interest
}

// PositionsOf returns what s sees of canonical names, and what it saw at a generation. Was and Maybe are false
// for a resource that has not changed since. Names should be few, since the table is locked meanwhile.
func (s *Subscription) PositionsOf(v *View, names []string, since uint64) []NamePosition {
	out := make([]NamePosition, len(names))
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i, name := range names {
		s.position(&out[i], v, name, since)
	}
	return out
}

func (s *Subscription) position(p *NamePosition, v *View, name string, since uint64) {
	t := s.table
	e := t.core.entry(v, name)
	if e == nil {
		if _, ok := s.names[name]; ok {
			p.Name, p.Interest = t.core.called(name), InName
		}
		return
	}
	if p.Interest = s.interest(e); p.Interest == "" {
		return
	}
	there, gen := s.sees(e)
	p.Name, p.Gen, p.Changed = t.core.called(e.Name), gen, changedAt(e)
	if there {
		p.Name, p.Resource = e.Res.Name, e.Res
	}
	if gen > since {
		p.Was = e.Born > 0 && e.Born <= since
		p.Maybe = !p.Was && e.Lived > 0 && e.Lived <= since
	}
}

// interest returns how s includes e.
func (s *Subscription) interest(e *table.Entry) Interest {
	switch {
	case s.means(e) || s.saw(e):
		return InName
	case s.asksFor(e):
		return InGlob
	case s.key.wildcard && (e.Member || e.Wild > 0):
		return InWildcard
	}
	return ""
}
