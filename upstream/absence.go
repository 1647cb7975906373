package upstream

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// absences are the does-not-exist timers of one stream (C12). All run equally
// long, so they end in the order in which they began: a queue and one timer do
// for any number of names. What happened to a name meanwhile is looked up when
// its time has come. Ending the stream drops the queue, and with it the timers.
type absences struct {
	after time.Duration
	queue []awaited
}

// awaited are names that were asked for together.
type awaited struct {
	due   time.Time
	typ   *resource.Type
	names []string // sorted
}

// drop ends the timers of names that are not asked for any more, or were not for a moment:
// they need not be kept, and silence says nothing of what is asked for again later. names is
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
			w.names = without(w.names, names)
			left = left || len(w.names) == 0
		}
	}
	if left {
		a.queue = slices.DeleteFunc(a.queue, func(w awaited) bool { return len(w.names) == 0 })
	}
}

// await starts the timers of names that were just asked for, which are sorted.
func (a *absences) await(now time.Time, typ *resource.Type, names []string) {
	if len(names) > 0 {
		a.queue = append(a.queue, awaited{due: now.Add(a.after), typ: typ, names: names})
	}
}

// next is when the next timer ends, zero if none runs.
func (a *absences) next() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].due
}

// expired takes the names whose time is over at now.
func (a *absences) expired(now time.Time) []awaited {
	n := 0
	for n < len(a.queue) && !a.queue[n].due.After(now) {
		n++
	}
	over := slices.Clone(a.queue[:n])
	if a.queue = slices.Delete(a.queue, 0, n); len(a.queue) == 0 {
		a.queue = nil // lets go of the array
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
