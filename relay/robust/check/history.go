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
}

func (h *history) add(serial int, at time.Duration) {
	if len(h.serials) == 0 || h.last() != serial {
		h.serials, h.since = append(h.serials, serial), append(h.since, at)
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
