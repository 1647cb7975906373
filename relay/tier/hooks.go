package tier

import (
	"context"
	"slices"
	"time"

	"xdsrelay/relay/cache"
)

// Hook begins what a node does for a key while the key is in a state, and returns a function that
// ends it. It does not block. The function may take a second, to finish what was begun; those of
// several keys may run at the same time.
type Hook func(g *cache.Group) (end func())

// aloneFor is longer than it usually takes until another node owns a key whose owner has left.
const aloneFor = 30 * time.Second

// hooks calls the hooks of a key. It has no goroutine but while hooks end. The keeper owns it.
type hooks struct {
	// Fixed after construction.
	cfg   *Config
	group *cache.Group // nil if another keeper calls the hooks

	ends    []func()  // of the hooks that run, in the order in which they began
	ending  *job      // ends the hooks before; nil before the first time
	aloneAt time.Time // when those for a node that is Alone for long begin; zero if they do not
}

// begin calls the hooks of a state, after those before have ended.
func (h *hooks) begin(s State) {
	if h.group == nil {
		return
	}
	switch s {
	case Owner:
		h.ending.wait()
		h.call(h.cfg.Own)
	case Alone:
		h.ending.wait()
		h.call(h.cfg.Advance)
		h.aloneAt = time.Now().Add(aloneFor)
	}
}

// next calls the hooks that are due at now, and returns when others are; zero for never.
func (h *hooks) next(now time.Time) time.Time {
	if !h.aloneAt.IsZero() && !now.Before(h.aloneAt) {
		h.aloneAt = time.Time{}
		h.call(h.cfg.Alone)
	}
	return h.aloneAt
}

func (h *hooks) call(all []Hook) {
	for _, hook := range all {
		h.ends = append(h.ends, hook(h.group))
	}
}

// end ends the hooks, the last one first. It does not wait for that.
func (h *hooks) end() {
	h.aloneAt = time.Time{}
	ends := h.ends
	if h.ends = nil; len(ends) > 0 {
		h.ending = startJob(context.Background(), func(context.Context) {
			for _, end := range slices.Backward(ends) {
				end()
			}
		})
	}
}

// stop is end that waits.
func (h *hooks) stop() {
	h.end()
	h.ending.wait()
}
