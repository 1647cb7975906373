package sim

// absent is the serial of what the control plane does not have.
const absent = 0

// history is all that a resource was at the control plane, in order.
type history struct{ serials []int }

func (h *history) add(serial int) {
	if len(h.serials) == 0 {
		h.serials = append(h.serials, absent)
	}
	if h.serials[len(h.serials)-1] != serial {
		h.serials = append(h.serials, serial)
	}
}

// find is the first time at or after another at which the resource was as a serial says;
// -1 for never. A nil history is that of a resource that never was.
func (h *history) find(serial, from int) int {
	if h == nil {
		return -1
	}
	for i := max(0, from); i < len(h.serials); i++ {
		if h.serials[i] == serial {
			return i
		}
	}
	return -1
}
