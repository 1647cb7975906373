package demand

import (
	"cmp"
	"time"

	"xdsrelay/relay/resource"
)

// Nobody is the stream of a name that no stream serves: the name does not exist, and no control
// plane is asked.
const Nobody = -1

// Interest is the interest of all clients in one name, or in the wildcard. Only [Demand] changes it,
// but for the end of its linger time.
type Interest[S comparable] struct {
	stream  int // that serves it, or Nobody
	subs    Subscribers[S]
	seq     uint64 // Demand.seq when the interest began
	size    int32  // of the name in a request on the stream; 0 if it is not asked for
	state   state
	booked  bool      // see Linger
	expires time.Time // without subscribers: the end of its linger time
	spelled string    // how it is asked for, "" for the canonical form
}

// state is what the control plane of a name's stream was sent about the interest in it. A change
// that is pending besides ([stream.changes]) is sent with the next request.
type state uint8

const (
	// unasked: nothing was sent. A change is pending.
	unasked state = iota
	// asked: the control plane may believe that the relay holds the name. A change that is pending
	// asks for it once more, after an unsubscribe (C9).
	asked
	// shed: it is not asked for in spite of the interest. A change that is pending is an unsubscribe.
	shed
)

// Stream is the stream that serves the name, or [Nobody].
func (w *Interest[S]) Stream() int { return w.stream }

// Subscribers are the subscriptions with the interest.
func (w *Interest[S]) Subscribers() *Subscribers[S] { return &w.subs }

// Seq orders interests by their beginning.
func (w *Interest[S]) Seq() uint64 { return w.seq }

// Size is the size of the name in a request, in bytes; 0 if it is not asked for.
func (w *Interest[S]) Size() int { return int(w.size) }

// Shed reports whether the name is not asked for in spite of the interest in it.
func (w *Interest[S]) Shed() bool { return w.state == shed }

// Demanded reports whether the control plane should serve it: it has subscribers, or had some a
// moment ago (K10).
func (w *Interest[S]) Demanded() bool { return w.subs.Len() > 0 || !w.expires.IsZero() }

// Lingers reports whether it has no subscribers any more, but had some a moment ago. w may be nil.
func (w *Interest[S]) Lingers() bool { return w != nil && !w.expires.IsZero() }

// Expires is the end of the linger time of an interest that lingers.
func (w *Interest[S]) Expires() time.Time { return w.expires }

// Linger makes an interest without subscribers end later by d, and books its bytes.
func (w *Interest[S]) Linger(d time.Duration) {
	w.booked = true
	w.expires = w.expires.Add(d)
}

// Unbook reports whether the bytes of the interest were booked. They no longer are.
func (w *Interest[S]) Unbook() (was bool) {
	was, w.booked = w.booked, false
	return was
}

// AskedOf reports whether the name is asked for on a stream, or has to be. w may be nil.
func (w *Interest[S]) AskedOf(stream int) bool {
	return w != nil && w.stream == stream && w.state != shed
}

// Name is the spelling in which the control plane is asked for a name, whose canonical form is
// given.
func (w *Interest[S]) Name(canonical string) string { return cmp.Or(w.spelled, canonical) }

// NameOverhead is the maximum size of a name in a request besides the name itself, in bytes.
const NameOverhead = 5

// RequestSize is the size of a name in a request, in bytes, if it is asked for as spelled, or in its
// canonical form if that is empty.
func RequestSize(canonical, spelled string) int {
	return max(len(canonical), len(spelled)) + NameOverhead
}

// NameCost estimates the memory of a name that only one subscription asks for, in bytes, without
// the name itself.
const NameCost = 240

// Cost estimates the memory of the interest in a name, in bytes.
func Cost(name string) int64 {
	n := int64(NameCost + len(name))
	if resource.IsURN(name) {
		n += 160 + int64(len(name)) // its other spelling, and a share of its glob
	}
	return n
}
