package upstream

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/upstream/conversation"
)

// absences are the does-not-exist timers of one stream (C12). All timers have the same duration, so
// they expire in the order in which they started: one queue and one timer serve any number of
// names. The caller checks the state of a name only when its timer expires. When the stream ends,
// the queue is dropped, and the timers with it.
type absences struct {
	after time.Duration
	queue []awaited
}

// awaited is a set of names that one request subscribed to.
type awaited struct {
	due   time.Time
	typ   *resource.Type
	names []string // sorted
}

// drop cancels the timers of names that were unsubscribed, even if only for a moment. These names
// need no timer, and silence says nothing about a name that is subscribed again later. names is
// sorted.
func (a *absences) drop(typ *resource.Type, names []string) {
	if len(names) == 0 {
		return
	}
	left := false
	for i := range a.queue {
		w := &a.queue[i]
		awaits := func(n string) bool {
			_, is := slices.BinarySearch(w.names, n)
			return is
		}
		if w.typ.URL == typ.URL && slices.ContainsFunc(names, awaits) {
			w.names = conversation.Without(w.names, names)
			left = left || len(w.names) == 0
		}
	}
	if left {
		a.queue = slices.DeleteFunc(a.queue, func(w awaited) bool { return len(w.names) == 0 })
	}
}

// await starts the timers of names that were just subscribed. names is sorted.
func (a *absences) await(now time.Time, typ *resource.Type, names []string) {
	if len(names) > 0 {
		a.queue = append(a.queue, awaited{due: now.Add(a.after), typ: typ, names: names})
	}
}

// next returns when the next timer expires, zero if none runs.
func (a *absences) next() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].due
}

// expired removes and returns the names whose timers have expired at now.
func (a *absences) expired(now time.Time) []awaited {
	n := 0
	for n < len(a.queue) && !a.queue[n].due.After(now) {
		n++
	}
	over := slices.Clone(a.queue[:n])
	if a.queue = slices.Delete(a.queue, 0, n); len(a.queue) == 0 {
		a.queue = nil // releases the array
	}
	return over
}

// awaits reports whether a timer of the type runs.
func (a *absences) awaits(typeURL string) bool {
	for _, w := range a.queue {
		if w.typ.URL == typeURL {
			return true
		}
	}
	return false
}
