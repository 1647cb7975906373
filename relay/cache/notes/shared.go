package notes

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Shared is up to where another node was sent, on one stream, the names of an [Errored]. The zero
// value is that of a new stream. One goroutine uses it at a time.
type Shared struct {
	upTo  uint64   // names up to this number were sent, or do not concern the other node
	again []string // of these, some that may concern it since
	more  bool
}

// More reports whether there was more than fits in one message.
func (s *Shared) More() bool { return s.more }

// Ask records that the other node now asks for names, which may concern names that were skipped, and
// calls pause after every step of names. covers reports whether a name may cover others, as the wildcard
// and globs do.
func (s *Shared) Ask(e *Errored, names iter.Seq[string], covers func(name string) bool, step int, pause func()) {
	e.guard.Reading()
	n := 0
	for spelled := range names {
		if s.upTo == 0 || len(e.names) == 0 {
			return
		}
		name := resource.Canonical(spelled)
		switch one := e.names[name]; {
		case covers(name): // any of them may concern it
			*s = Shared{}
		case one != nil && one.at <= s.upTo:
			s.again = append(s.again, name)
		}
		if n++; n%step == 0 {
			pause()
		}
	}
}

// Next returns names that the other node was not sent yet, of those that it covers: as many as fit in
// one message. It calls pause after every step of names.
func (s *Shared) Next(e *Errored, covers func(name string) bool, now time.Time, step int, pause func()) (of resource.Errored) {
	e.guard.Reading()
	unknown := false
	for n := 1; len(of.Names) < resource.MaxErrored; n++ {
		one, ok := s.take(e)
		if !ok {
			break
		}
		if one != nil && !one.forgotten && covers(one.name) {
			of.Names = append(of.Names, one.name)
			unknown = unknown || one.since.IsZero()
			of.Age = max(of.Age, now.Sub(one.since), time.Second)
		}
		if n%step == 0 {
			pause()
		}
	}
	s.more = len(s.again) > 0 || s.upTo < e.last
	if unknown {
		of.Age = 0
	}
	return of
}

// take returns the next name to examine, which is nil or forgotten if there is no error any more.
func (s *Shared) take(e *Errored) (one *erroredName, ok bool) {
	if last := len(s.again) - 1; last >= 0 {
		one, s.again = e.names[s.again[last]], s.again[:last]
		return one, true
	}
	if s.upTo >= e.last {
		s.again = nil
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(e.order, s.upTo+1, func(o *erroredName, at uint64) int { return cmp.Compare(o.at, at) })
	if i == len(e.order) {
		s.upTo = e.last // the newest ones are forgotten
		return nil, false
	}
	s.upTo = e.order[i].at
	return e.order[i], true
}
