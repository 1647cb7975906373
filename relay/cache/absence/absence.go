// Package absence has what one upstream stream knows of names without a resource, for one type, as a pure
// value: it takes no lock, reads no clock, and starts no goroutine. Package cache puts it under the lock of
// a table, passes the time to it, and decides what counts as an answer.
//
// All names are canonical.
package absence

import (
	"iter"
	"time"
)

// Names is what a stream knows of names. The zero value knows nothing.
type Names struct {
	// silent are names that do not exist: the control plane was silent when it was asked for them while
	// the content was unconfirmed.
	silent map[string]struct{}
	// assumed are names that count as absent without an answer.
	assumed map[string]struct{}
	// removed is when resources were removed.
	removed map[string]time.Time
	// overtaken has the names that the owner has sent while the rest of the content may be old, and as
	// of when: what other nodes had of them until then is older.
	overtaken map[string]time.Time
}

// Arrived records that a resource with a name has arrived: it is neither assumed to be absent nor removed.
func (a *Names) Arrived(name string) {
	delete(a.removed, name)
	delete(a.assumed, name)
}

// Forget forgets a name of which the table keeps nothing: it may return without a notice.
func (a *Names) Forget(name string) { a.Arrived(name) }

// Assume records that a name counts as absent without an answer.
func (a *Names) Assume(name string) {
	a.assumed = with(a.assumed, name, struct{}{})
}

// IsAssumed reports whether a name counts as absent without an answer.
func (a *Names) IsAssumed(name string) bool {
	_, is := a.assumed[name]
	return is
}

// Answer ends the assumption about a name. It reports whether there was one.
func (a *Names) Answer(name string) bool {
	is := a.IsAssumed(name)
	delete(a.assumed, name)
	return is
}

// AnswerAll ends the assumptions about all names.
func (a *Names) AnswerAll() { a.assumed = nil }

// Assumed is how many names count as absent without an answer.
func (a *Names) Assumed() int { return len(a.assumed) }

// AssumesAny reports whether one of names counts as absent without an answer. The cost is that of the
// smaller set.
func (a *Names) AssumesAny(names map[string]struct{}) bool {
	some, others := a.assumed, names
	if len(others) < len(some) {
		some, others = others, some
	}
	for name := range some {
		if _, is := others[name]; is {
			return true
		}
	}
	return false
}

// ScanAssumed yields the names that count as absent without an answer, and calls pause after each step of
// them. A name that is assumed all the time is yielded exactly once, whatever changes meanwhile.
func (a *Names) ScanAssumed(step int, pause func()) iter.Seq[string] {
	return func(use func(string) bool) {
		n := 0
		for name := range a.assumed {
			if !use(name) {
				return
			}
			if n++; n%step == 0 {
				pause()
			}
		}
	}
}

// Silence records that the control plane was silent about a name.
func (a *Names) Silence(name string) {
	a.silent = with(a.silent, name, struct{}{})
}

// IsSilent reports whether the control plane was silent about a name.
func (a *Names) IsSilent(name string) bool {
	_, is := a.silent[name]
	return is
}

// EndSilence forgets that the control plane was silent about a name.
func (a *Names) EndSilence(name string) { delete(a.silent, name) }

// EndSilences forgets all names about which the control plane was silent.
func (a *Names) EndSilences() { a.silent = nil }

// Remove records that a resource was removed, and when. The record ends when the resource has arrived
// again, or the name is forgotten.
func (a *Names) Remove(name string, at time.Time) {
	a.removed = with(a.removed, name, at)
}

// Return ends the record of a removal: the resource is sent again.
func (a *Names) Return(name string) { delete(a.removed, name) }

// RemovedSince reports whether a resource was removed at a time or after it.
func (a *Names) RemovedSince(name string, since time.Time) bool {
	at, is := a.removed[name]
	return is && !at.Before(since)
}

// HasRemovedSince reports whether any resource was removed at a time or after it.
func (a *Names) HasRemovedSince(since time.Time) bool {
	for _, at := range a.removed {
		if !at.Before(since) {
			return true
		}
	}
	return false
}

// Overtake records that the owner has sent a name, and that other nodes may have had the same content of
// it since a time.
func (a *Names) Overtake(name string, asOf time.Time) {
	a.overtaken = with(a.overtaken, name, asOf)
}

// Overtakes reports whether the owner has sent a name since other nodes had content as of a time.
func (a *Names) Overtakes(name string, asOf time.Time) bool {
	sent, ok := a.overtaken[name]
	return ok && !asOf.After(sent)
}

// CaughtUp forgets which names the owner has sent: the rest of the content is as new.
func (a *Names) CaughtUp() { a.overtaken = nil }

// with sets what a map has of a name. A nil map is made first.
func with[V any](all map[string]V, name string, v V) map[string]V {
	if all == nil {
		all = make(map[string]V)
	}
	all[name] = v
	return all
}
