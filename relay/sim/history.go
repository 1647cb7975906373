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

// newest is when the resource was as a serial says for the last time; -1 for never. A nil
// history is that of a resource that never was.
func (h *history) newest(serial int) int {
	if h == nil {
		return -1
	}
	for i := len(h.serials) - 1; i >= 0; i-- {
		if h.serials[i] == serial {
			return i
		}
	}
	return -1
}
