package check

import "slices"

// absent is the serial of what the origin does not have.
const absent = 0

// history is all that a resource was at the origin, in order: serials, and absent.
// It grows with changes only.
type history struct{ serials []int }

func (h *history) add(serial int) {
	if len(h.serials) == 0 || h.last() != serial {
		h.serials = append(h.serials, serial)
	}
}

func (h *history) last() int { return h.serials[len(h.serials)-1] }

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

// repeats tells whether the resource was the same more than once.
func (h *history) repeats(serial int) bool {
	first := h.find(serial, 0)
	return first >= 0 && h.find(serial, first+1) >= 0
}

// goneSince reports whether the resource was absent after it was first like that.
func (h *history) goneSince(serial int) bool {
	first := h.find(serial, 0)
	return first >= 0 && h.find(absent, first) >= 0
}
