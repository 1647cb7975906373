package cache

import (
	"maps"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
)

// Standing is the state of a name for the relay as a client of its control plane (K20).
type Standing int

// The states of a name.
const (
	Requested   Standing = iota // it was asked for, and nothing is known yet
	Unreachable                 // it was asked for, and its control plane is unreachable
	Absent                      // it does not exist
	Accepted                    // the table has its newest copy
	Rejected                    // its newest copy could not be used
	Failed                      // the control plane has answered for it with an error (C16)
)

// NameInfo describes one name of a table, as the control plane has reported it.
type NameInfo struct {
	// Name is spelled as the control plane does, or in the spelling of the request. The wildcard is
	// included until it is answered.
	Name     string
	Standing Standing
	// Resource is the present copy: after a rejected copy or an error, the last good one. Nil if
	// there is none.
	Resource *resource.Resource
	// Version is that of the present copy, the control plane's own if it gave one.
	Version string
	// Changed is when the present copy arrived; zero if nothing is known.
	Changed time.Time
	// Problem is set for Rejected, Failed and Unreachable, and for Accepted while it is stale
	// (K14).
	Problem *Problem

	failure resource.About // with Failed, as long as Problem has no message
}

// Problem is what went wrong with a name.
type Problem struct {
	At      time.Time // zero with Failed
	Message string
	// Version is that of the rejected copy, if it is known.
	Version string

	stream int // the stream that delivered it
}

// staleMessage is the problem of restored content until a control plane has confirmed it.
const staleMessage = "restored from last known good: the control plane has not confirmed it"

// maxProblems bounds the rejected names that a table remembers besides those that it has or asks
// for by name, and maxMessage the length of the reason.
const (
	maxProblems = 1000
	maxMessage  = 1 << 10
)

// reject records the copies that a stream delivered in u and that could not be used, and that
// those of other names could.
func (t *core) reject(by int, u Update) {
	if len(t.rejected) > 0 {
		t.forgive(by, u)
	}
	for i, inv := range u.Rejected {
		name := resource.Canonical(inv.Name)
		if !t.covered(by, name, nil) || !t.oneOrigin(t.streamOf(name), by) || !t.hasRoomForProblem(name) {
			continue
		}
		if t.rejected == nil {
			t.rejected = make(map[string]*Problem)
		}
		t.rejected[name] = &Problem{At: time.Now(), Message: u.problems[i], Version: u.Version, stream: by}
	}
}

// problemsOf returns what may be shown of why copies are rejected. No lock may be held, because it
// may take long.
func problemsOf(rejected []resource.Invalid) (messages []string) {
	for _, inv := range rejected {
		messages = append(messages, redact.Short(inv.Err.Error(), maxMessage))
	}
	return messages
}

// hasRoomForProblem reports whether one more may be recorded.
func (t *core) hasRoomForProblem(name string) bool {
	if len(t.rejected) < maxProblems || t.store.Get(name) != nil || t.demand.Get(name) != nil {
		return true
	}
	maps.DeleteFunc(t.rejected, func(n string, p *Problem) bool { return !t.covered(p.stream, n, nil) })
	return len(t.rejected) < maxProblems
}

// forgive forgets the rejected copies of names for which u has something newer.
func (t *core) forgive(by int, u Update) {
	if u.Full { // what is still bad is in u
		maps.DeleteFunc(t.rejected, func(_ string, p *Problem) bool { return p.stream == by })
		return
	}
	for _, r := range u.Resources {
		delete(t.rejected, r.Key)
	}
	for _, n := range u.Removed {
		delete(t.rejected, resource.Canonical(n))
	}
	for _, a := range u.Errors {
		delete(t.rejected, resource.Canonical(a.Name))
	}
}

// NameInfos describes the names that the table has or asks for, sorted. The cost is proportional to
// their number. A name that changes meanwhile may be missing.
func (t *Table) NameInfos() []NameInfo {
	t.mu.RLock()
	size := t.core.store.Live() + t.core.demand.Len()
	t.mu.RUnlock()
	out := make([]NameInfo, 0, size)
	for _, e := range t.core.entriesInSteps(t.mu.reading()) {
		if e.Res != nil {
			out = append(out, t.core.describe(e))
		}
	}
	waiting := make(map[int][]int) // by stream, the indices in out of unanswered names
	ask := func(name string, w *interest, known bool) {
		i := NameInfo{Name: t.core.called(name)}
		if e := t.core.store.Get(name); e != nil {
			i = t.core.describe(e)
		} else if t.core.trouble(name, &i); i.Problem != nil || i.Standing == Failed {
			// there is nothing more to report
		} else if known || w.Stream() == Nobody {
			i.Standing = Absent
		} else {
			waiting[w.Stream()] = append(waiting[w.Stream()], len(out))
		}
		out = append(out, i)
	}
	for name, w := range t.core.interestsInSteps(t.mu.reading()) {
		if !t.core.store.Exists(name) && t.core.store.Uncacheable()[name] == "" { // those appear where they are asked for (K17)
			ask(name, w, t.core.isGlob(name) && !t.core.demand.Open(w, name))
		}
	}
	t.mu.RLock()
	if t.core.demand.Wildcard().Demanded() && !t.core.demand.WildcardAnswered() {
		ask(everything, t.core.demand.Wildcard(), false)
	}
	for name, p := range t.core.rejected {
		if t.core.store.Get(name) == nil && t.core.demand.Get(name) == nil && t.core.covered(p.stream, name, nil) {
			out = append(out, NameInfo{Name: name, Standing: Rejected, Problem: p})
		}
	}
	t.mu.RUnlock()
	for i := range out {
		if out[i].Standing == Failed {
			out[i].Problem = &Problem{Message: redact.Short(out[i].failure.Message(), maxMessage)}
		}
	}
	for stream, names := range waiting {
		if up := t.group.upstreamOf(stream); up.Err != nil {
			problem := &Problem{At: up.Since, Message: redact.Error(up.Err)}
			for _, i := range names {
				out[i].Standing, out[i].Problem = Unreachable, problem
			}
		}
	}
	slices.SortFunc(out, func(a, b NameInfo) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b NameInfo) bool { return a.Name == b.Name })
}

// describe describes a name of which something is known.
func (t *core) describe(e *table.Entry) NameInfo {
	i := NameInfo{Name: t.called(e.Name), Standing: Absent, Changed: time.UnixMilli(e.Changed)}
	if e.Res != nil {
		i.Name, i.Standing, i.Resource, i.Version = e.Res.Name, Accepted, e.Res, e.Version
		stream := &t.streams[e.Stream]
		if e.Version == noVersion {
			i.Version = e.Res.Version
			if stream.confidence.FromLastGood() {
				i.Problem = &Problem{Message: staleMessage}
			}
		}
		if stream.version != "" {
			i.Version = stream.version
		}
	}
	t.trouble(e.Name, &i)
	return i
}

// trouble records what went wrong with a name, if anything did.
func (t *core) trouble(name string, i *NameInfo) {
	if p := t.rejected[name]; p != nil {
		i.Standing, i.Problem = Rejected, p
		return
	}
	if a, failed := t.failure(name); failed {
		i.Standing, i.failure = Failed, a
	}
}

// Sight is what a subscription sees of one name.
type Sight struct {
	Name string
	// Gen is the generation of the last change, 0 if nothing is known.
	Gen uint64
	// Resource is nil if there is none, as far as is known.
	Resource *resource.Resource
	// Changed is the time of the last change; zero if nothing is known.
	Changed time.Time
}

// Subscription returns what w asks for, nil for nothing.
func (t *Table) Subscription(w *Watcher) *Subscription {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return w.sub
}

// Sights lists what s sees in a view, nil for the table, and the names that it asks for in vain, in no
// order. The cost is proportional to their number. Each is correct at some time during the call.
func (s *Subscription) Sights(v *View) []Sight {
	t := s.table
	t.mu.RLock()
	wildcard, size := s.key.wildcard, len(s.names)
	if wildcard {
		size += t.core.store.Live()
	}
	t.mu.RUnlock()
	out := make([]Sight, 0, size)
	see := func(e *table.Entry) {
		if there, gen := s.sees(e); there {
			out = append(out, Sight{e.Res.Name, gen, e.Res, changedAt(e)})
		}
	}
	stored := v.without(see)
	if wildcard {
		for _, e := range t.core.entriesInSteps(t.mu.reading()) {
			stored(e)
		}
	}
	if !wildcard {
		s.eachNamed(stored)
	}
	if v != nil {
		t.mu.RLock()
		v.each(see)
		t.mu.RUnlock()
	}
	for name := range inSteps(t, t.mu.reading(), &s.names) {
		exists := t.core.store.Exists(name)
		if e := v.get(name); e != nil {
			exists = e.Res != nil
		}
		if exists {
			continue
		}
		sight := Sight{Name: t.core.called(name)}
		if e := t.core.entry(v, name); e != nil {
			sight.Gen, sight.Changed = e.Named, changedAt(e)
		}
		out = append(out, sight)
	}
	return out
}

// changedAt returns when an entry changed; zero for one of a view, which does not know that.
func changedAt(e *table.Entry) time.Time {
	if e.Changed == 0 {
		return time.Time{}
	}
	return time.UnixMilli(e.Changed)
}
