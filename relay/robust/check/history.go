package check

import (
	"slices"
	"time"
)

// absent is the serial of what the origin does not have.
const absent = 0

// history is all that a resource was at the origin, in order: serials, and absent.
// It grows with changes only.
type history struct {
	serials []int
	since   []time.Duration // from when on it was like that
	reached []reach         // how far it got like that
}

// reach is how far a state of a resource got from the origin.
type reach int

const (
	unsent      reach = iota
	awaitingACK       // sent to a node, which may not have received it
	acked             // a node has it
)

func (h *history) add(serial int, at time.Duration) {
	if len(h.serials) == 0 || h.last() != serial {
		h.serials, h.since, h.reached = append(h.serials, serial), append(h.since, at), append(h.reached, unsent)
	}
}

func (h *history) last() int { return h.serials[len(h.serials)-1] }

// leftAt is when the resource became absent, which it is now, as far as nodes can know: what the origin
// had for a while and never sent does not count.
func (h *history) leftAt() time.Duration {
	i := len(h.serials) - 1
	for i > 1 && h.reached[i-1] == unsent && h.serials[i-2] == absent {
		i -= 2
	}
	return h.since[i]
}

// find is the first position at or after from with a serial, -1 if there is none.
// A nil history is that of a resource that never was.
func (h *history) find(serial, from int) int {
	if h == nil {
		if serial == absent {
			return 0
		}
		return -1
	}
	if from > len(h.serials) {
		return -1
	}
	if i := slices.Index(h.serials[from:], serial); i >= 0 {
		return from + i
	}
	return -1
}

// returned reports whether the resource was like that once more, from a time on or later.
func (h *history) returned(serial int, since time.Duration) bool {
	first := h.find(serial, 0)
	if h == nil || first < 0 {
		return false
	}
	for i := first + 1; i < len(h.serials); i++ {
		if h.serials[i] == serial && h.since[i] >= since {
			return true
		}
	}
	return false
}

// goneSince reports whether the resource was absent after it was first like that.
func (h *history) goneSince(serial int) bool {
	first := h.find(serial, 0)
	return first >= 0 && h.find(absent, first) >= 0
}

// reach notes how far the resource got as a serial says: as it was like that last, since the origin
// may go back to what it sent long ago while nobody is connected. Of a nil history nothing is noted.
func (h *history) reach(serial int, how reach) {
	if h == nil {
		return
	}
	for at := len(h.serials) - 1; at >= 0; at-- {
		if h.serials[at] == serial && h.reached[at] >= how-1 {
			h.reached[at] = max(how, h.reached[at])
			return
		}
	}
}

// served reports whether the origin ever sent the resource like that.
func (h *history) served(serial int) bool {
	if h == nil {
		return false
	}
	for at := range h.serials {
		if h.serials[at] == serial && h.reached[at] != unsent {
			return true
		}
	}
	return false
}

// heldBefore is a position before one at which the resource was as a serial says, and after which no
// node got another state of it for sure: -1 for none. What the control plane had while it was away
// nobody knows, and what it sends on a connection that has stalled may not arrive.
func (h *history) heldBefore(at, serial int) int {
	if h == nil {
		return -1
	}
	for at--; at >= 0; at-- {
		switch {
		case h.reached[at] != unsent && h.serials[at] == serial:
			return at
		case h.reached[at] == acked:
			return -1
		}
	}
	return -1
}
