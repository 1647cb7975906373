package notes

import "time"

// Resent records to which clients unchanged resources were resent because other nodes had sent clients
// an error for them. A client whose stream is older than that error does not remember it. The zero
// value is that of a table in which none was resent.
type Resent struct {
	all  uint64    // generation of the newest that was resent to all clients
	upTo uint64    // generation of the newest that was resent to clients that connected after late
	late time.Time // the earliest time from when on an error of one of these was sent
	at   time.Time // when the first of these was resent
}

// OnTheWay is how much later than they were written messages of other nodes may be read: far longer
// than streams between nodes live without an answer. It covers the whole way, such as from a node to
// the owner and from there to others: a message that is passed on keeps the age with which it was
// received.
const OnTheWay = time.Minute

// Spares reports whether nothing has to be resent to a client for the errors of other nodes: it had
// everything up to generation gen, and its stream is open since a time.
func (r *Resent) Spares(gen uint64, since time.Time) bool {
	return gen < r.upTo && gen >= r.all && since.Before(r.late)
}

// add records that a resource is resent, for an error from since on; zero if that is unknown. After a
// while a new batch begins, and clients that are behind are resent the previous ones.
func (r *Resent) add(gen uint64, since, now time.Time) {
	if since.IsZero() {
		r.all = gen
		return
	}
	since = since.Add(-OnTheWay)
	switch {
	case r.late.IsZero() || now.Sub(r.at) > OnTheWay:
		r.all, r.late, r.at = max(r.all, r.upTo), since, now
	case since.Before(r.late):
		r.late = since
	}
	r.upTo = gen
}
