package sim

import "time"

// absent is the serial of what the control plane does not have.
const absent = 0

// history is all that a resource was at the control plane, in order.
type history struct {
	serials []int
	since   []time.Duration // when it became like that
	served  []bool          // whether the control plane sent it to anyone like that, or its set without it
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
	h.served, h.hidden = append(h.served, false), append(h.hidden, hidden)
}

// show notes that the control plane is back.
func (h *history) show() { h.hidden[len(h.hidden)-1] = false }

// serve notes that the control plane sends the resource like that.
func (h *history) serve(serial int) {
	for at := len(h.serials) - 1; at >= 0; at-- {
		if h.serials[at] == serial {
			h.served[at] = true
			return
		}
	}
}

// servedBefore is what was sent last before a time, which nodes then had: changes that follow
// one another at once are sent as one. It is absent where nothing was sent.
func (h *history) servedBefore(at int) (serial int) {
	for at--; at >= 0; at-- {
		if h.served[at] && h.serials[at] != absent {
			return h.serials[at]
		}
	}
	return absent
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
