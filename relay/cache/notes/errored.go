package notes

import (
	"slices"
	"time"

	"xdsrelay/relay/cache/guarded"
	"xdsrelay/relay/resource"
)

// Errored has the names for which clients may remember an error, although they have the present
// resource (C16). They are part of the last known good, and nodes send them to each other along with
// the key: an owner to its followers, and followers to an owner, which may have restarted. One
// goroutine changes it at a time, while no other one reads it; see [Errored.Guard].
type Errored struct {
	guard guarded.Guard

	names  map[string]*erroredName
	order  []*erroredName // by age, the oldest first, including some that are forgotten
	last   uint64         // the number of the newest one
	bytes  int64
	digest resource.Digest // of the names, in no order
	resent Resent
}

// erroredName is one of these names.
type erroredName struct {
	name      string
	at        uint64 // a number that grows
	forgotten bool
	// since is from when on clients may have been sent the error, give or take OnTheWay; zero if
	// that is unknown.
	since time.Time
	// from is the generation of the resource before it was resent to some clients; 0: to all. See
	// Resent.
	from uint64
}

// NewErrored makes an Errored without names.
func NewErrored() Errored { return Errored{names: make(map[string]*erroredName)} }

// Guard is [Notes.Guard] for e.
func (e *Errored) Guard(check func(changes bool)) { e.guard.By(check) }

// Has reports whether clients may remember an error of a name.
func (e *Errored) Has(name string) bool {
	e.guard.Reading()
	return e.names[name] != nil
}

// Len returns the number of names.
func (e *Errored) Len() int {
	e.guard.Reading()
	return len(e.names)
}

// Bytes estimates the memory of e.
func (e *Errored) Bytes() int64 {
	e.guard.Reading()
	return e.bytes
}

// Digest identifies the set of names.
func (e *Errored) Digest() resource.Digest {
	e.guard.Reading()
	return e.digest
}

// Since is from when on clients may have been sent an error of a name that they may remember; zero if
// that is unknown, or there is none.
func (e *Errored) Since(name string) (unknown time.Time) {
	e.guard.Reading()
	if one := e.names[name]; one != nil {
		return one.since
	}
	return unknown
}

// Remember records that clients are sent an error of a name, from since on; zero if that is unknown.
// If there are most names already, all others are forgotten.
func (e *Errored) Remember(name string, since time.Time, most int) {
	e.guard.Writing()
	if e.names[name] != nil {
		return
	}
	if len(e.names) >= most {
		*e = Errored{guard: e.guard, names: make(map[string]*erroredName), last: e.last, resent: e.resent}
	}
	e.last++
	one := &erroredName{name: name, at: e.last, since: since}
	e.names[name], e.order = one, append(e.order, one)
	e.bytes += erroredSize(name)
	e.digest = e.digest.Add(resource.NamesDigest([]string{name}))
}

// Dismiss reverses Remember: clients that remember the error have a copy that is not the newest any
// more, so they get the resource anyway. spare is how many forgotten names may take room.
func (e *Errored) Dismiss(name string, spare int) {
	e.guard.Writing()
	one := e.names[name]
	if one == nil {
		return
	}
	delete(e.names, name)
	one.forgotten = true
	e.bytes -= erroredSize(name)
	e.digest = e.digest.Sub(resource.NamesDigest([]string{name}))
	if len(e.order) > 2*len(e.names)+spare {
		e.order = slices.DeleteFunc(e.order, func(o *erroredName) bool { return o.forgotten })
	}
}

// erroredSize estimates the memory of a name, in bytes.
func erroredSize(name string) int64 { return int64(120 + len(name)) }

// ResentToAll records that the resource of a name was resent to all clients.
func (e *Errored) ResentToAll(name string) {
	e.guard.Writing()
	if one := e.names[name]; one != nil {
		one.from = 0
	}
}

// ResentFor records that the resource of a name was resent, at generation gen and before at generation
// from, because of an error since a time; zero if that is unknown.
func (e *Errored) ResentFor(name string, from, gen uint64, since, now time.Time) {
	e.guard.Writing()
	e.resent.add(gen, since, now)
	if one := e.names[name]; one != nil && !since.IsZero() {
		one.from = from
	}
}

// SparedFrom is the generation of the resource of a name for a client that needs no resends because of
// errors that other nodes sent, where that is not gen, its present one.
func (e *Errored) SparedFrom(name string, gen uint64) uint64 {
	e.guard.Reading()
	if one := e.names[name]; one != nil && one.from > 0 {
		return one.from
	}
	return gen
}

// Resent returns what was resent so far.
func (e *Errored) Resent() Resent {
	e.guard.Reading()
	return e.resent
}
