package sim

import "time"

// absent is the serial of what the control plane does not have.
const absent = 0

// history is all that a resource was at the control plane, in order.
type history struct {
	serials []int
	since   []time.Duration // when it became like that
	served  []bool          // whether the control plane sent it to anyone like that, or its set without it
	acked   []bool          // whether a node has accepted it like that
	hidden  []bool          // whether the control plane was away for as long as it was like that
}

// add notes a change; hidden says that the control plane is away.
func (h *history) add(serial int, at time.Duration, hidden bool) {
	if len(h.serials) == 0 {
		h.append(absent, 0, hidden)
	}
	if h.serials[len(h.serials)-1] != serial {
		h.append(serial, at, hidden)
	}
}

func (h *history) append(serial int, since time.Duration, hidden bool) {
	h.serials, h.since = append(h.serials, serial), append(h.since, since)
	h.served, h.acked, h.hidden = append(h.served, false), append(h.acked, false), append(h.hidden, hidden)
}

// show notes that the control plane is back.
func (h *history) show() { h.hidden[len(h.hidden)-1] = false }

// isHidden reports whether nobody can know how the resource is: the control plane is away.
func (h *history) isHidden() bool { return h.hidden[len(h.hidden)-1] }

// serve notes that the control plane sends the resource like that.
func (h *history) serve(serial int) { h.mark(h.served, serial) }

// ack notes that a node has accepted the resource like that.
func (h *history) ack(serial int) { h.mark(h.acked, serial) }

func (h *history) mark(in []bool, serial int) {
	for at := len(h.serials) - 1; at >= 0; at-- {
		if h.serials[at] == serial {
			in[at] = true
			return
		}
	}
}

// heldBefore reports whether nodes may have had a resource as a serial says last before a time:
// changes that follow one another at once are sent as one, and what is sent on a connection that
// has stalled may not arrive.
func (h *history) heldBefore(at, serial int) bool {
	for at--; at >= 0; at-- {
		switch {
		case h.served[at] && h.serials[at] == serial:
			return true
		case h.acked[at] && h.serials[at] != absent:
			return false
		}
	}
	return false
}

// find is the first time at or after another at which the resource was as a serial says, and
// anybody could know; -1 for never. A nil history is that of a resource that never was.
func (h *history) find(serial, from int) int {
	if h == nil {
		return -1
	}
	for i := max(0, from); i < len(h.serials); i++ {
		if h.serials[i] == serial && !h.hidden[i] {
			return i
		}
	}
	return -1
}
