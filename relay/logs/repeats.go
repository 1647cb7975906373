package logs

import (
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// window is for how long lines of a kind are counted together.
	window = time.Minute
	// maxKinds bounds what is remembered; a program says far fewer things.
	maxKinds = 1024
)

// kind is what makes lines the same: all but what they are about.
type kind struct {
	part, message string
	level         slog.Level
}

// count is of one kind.
type count struct {
	began         time.Time // the window
	taken, missed int
}

// repeats counts lines by kind. All methods are safe for concurrent use.
type repeats struct {
	most int // fixed; in a window

	mu    sync.Mutex
	kinds *lru.Cache[kind, *count] // guarded by mu, with what is in it
}

func newRepeats(most int) *repeats {
	kinds, err := lru.New[kind, *count](maxKinds)
	if err != nil {
		panic(err) // of a size that is not positive
	}
	return &repeats{most: most, kinds: kinds}
}

// take tells whether a line is to be written, and how many of its kind were not since
// the last that was.
func (r *repeats) take(now time.Time, k kind) (write bool, missed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, is := r.kinds.Get(k)
	if !is {
		c = &count{began: now}
		r.kinds.Add(k, c)
	}
	if now.Sub(c.began) >= window {
		c.began, c.taken = now, 0
	}
	if c.taken >= r.most {
		c.missed++
		return false, 0
	}
	c.taken++
	missed, c.missed = c.missed, 0
	return true, missed
}
