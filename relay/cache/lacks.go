package cache

import (
	"cmp"
	"slices"
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Lack is a difference between what a subscription sees now and what it saw at an earlier
// generation.
type Lack struct {
	// Name is spelled as the control plane does.
	Name string
	// Gen is the generation of the last change, and Changed its time.
	Gen     uint64
	Changed time.Time
	// Resource is the present resource, nil if it was removed.
	Resource *resource.Resource
	// Was says that there was a resource of the name at the earlier generation: another one, of
	// which nothing more is known, because only the newest is kept. Maybe says that even this is
	// unknown: the name has been added and removed meanwhile.
	Was, Maybe bool
}

// Lacks returns what a subscription sees differently since a generation, by time, the newest first.
// Removals that are no longer known are omitted; a client that is that far behind must start over.
// The cost is proportional to the number of changes.
func (s *Subscription) Lacks(since uint64) []Lack {
	all, ok := s.fewLacks(since)
	if !ok {
		all = s.manyLacks(since)
	}
	out := make([]Lack, len(all))
	for i := range all {
		out[i] = all[i].Lack
	}
	return out
}

// lackAt is a Lack with the generation of the last change of its entry, visible or not.
type lackAt struct {
	Lack
	gen uint64
}

// fewLacks is Lacks unless there were more changes than one step examines.
func (s *Subscription) fewLacks(since uint64) (out []lackAt, ok bool) {
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	left := t.group.cache.step
	for e := t.core.store.Newest(); e != nil && e.Gen > since; e = e.Older() {
		if left--; left < 0 {
			return nil, false
		}
		if l, is := s.lack(e, since); is {
			out = append(out, l)
		}
	}
	return out, true
}

// manyLacks is Lacks in steps. Each result is correct at some time during the call.
func (s *Subscription) manyLacks(since uint64) (out []lackAt) {
	t := s.table
	t.mu.RLock()
	size := len(s.names)
	if s.key.wildcard {
		size += t.core.store.Live()
	}
	t.mu.RUnlock()
	out = make([]lackAt, 0, size)
	for _, e := range t.core.entriesInSteps(t.mu.reading()) {
		if l, is := s.lack(e, since); is && e.Gen > since {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b lackAt) int { return cmp.Compare(b.gen, a.gen) })
	return out
}

// lack returns what s lacks of e, if anything.
func (s *Subscription) lack(e *table.Entry, since uint64) (l lackAt, is bool) {
	there, gen := s.sees(e)
	was := e.Born > 0 && e.Born <= since
	maybe := !was && e.Lived > 0 && e.Lived <= since
	if gen <= since || !there && !was && !maybe {
		return l, false
	}
	l = lackAt{Lack{Name: s.table.core.called(e.Name), Gen: gen, Changed: time.UnixMilli(e.Changed), Was: was, Maybe: maybe}, e.Gen}
	if there {
		l.Name, l.Resource = e.Res.Name, e.Res
	}
	return l, true
}
