package fleet

import (
	"fmt"
	"sync"
	"time"

	"xdsrelay/bench/content"
)

// world knows when changes were intended: from the stamps that any client has
// seen, and from schedules that were announced. Keys change
// together, or each in its turn if the plan says so.
type world struct {
	mu sync.Mutex
	// Guarded by mu.
	seen  map[uint64]revision
	kinds kindSet // in which there were changes
	plans []Plan
}

// revision is one change.
type revision struct {
	at    int64 // when it was intended, in ns since 1970
	kinds kindSet
}

// Plan announces changes at equal intervals, so that those count that no client
// has seen because others overtook them.
type Plan struct {
	// First is the revision of the first change and At its time.
	First uint64    `json:"first"`
	At    time.Time `json:"at"`
	// Interval is the time from one to the next, in JSON in nanoseconds.
	Interval time.Duration `json:"interval"`
	// Count is how many there are; 0 means that there is no end.
	Count int `json:"count,omitempty"`
	// Change is what each of them changes.
	Change content.Change `json:"change"`

	kinds kindSet // but for those of clusters in between
}

// at is the change with a revision of the plan.
func (p *Plan) at(rev uint64) revision {
	r := revision{p.At.UnixNano() + int64(rev-p.First)*int64(p.Interval), p.kinds}
	if every := p.Change.ClusterEvery; every > 0 && rev%uint64(every) == 0 {
		r.kinds = 1 << cds
	}
	return r
}

// expect takes note of a plan.
func (w *world) expect(p Plan, all kindSet) error {
	kinds, err := kindsOf(p.Change, all)
	switch {
	case err != nil:
		return err
	case p.First == 0 || p.Interval <= 0 || p.Count < 0 || p.At.IsZero():
		return fmt.Errorf("plan: %d changes from revision %d at %v every %v, expected a first revision, its time and an interval", p.Count, p.First, p.At, p.Interval)
	}
	p.kinds = kinds
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans = append(w.plans, p)
	return nil
}

// kindsOf are the types that a change touches, of those that there are.
func kindsOf(c content.Change, all kindSet) (kindSet, error) {
	if c.Type != "" {
		k, ok := kindOf([]byte(c.Type))
		if !ok {
			return 0, fmt.Errorf("a change of type %q, expected a type URL", c.Type)
		}
		return 1 << k, nil
	}
	if c.Kind == content.Full {
		return all, nil
	}
	return 1 << cds, nil
}

// note takes note of a stamp.
func (w *world) note(k kind, rev uint64, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = make(map[uint64]revision)
	}
	r := w.seen[rev]
	w.seen[rev] = revision{at, r.kinds | 1<<k}
	if rev > 0 {
		w.kinds |= 1 << k
	}
}

// longestGap bounds how many changes a client can jump over and have counted.
const longestGap = 1 << 16

// due lists when the changes after one revision and up to another were intended
// that concern a type. What nobody has seen or announced counts only where there
// are changes of no other type, spread evenly.
func (w *world) due(k kind, key, keys int, after, upTo uint64) (times []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if upTo-after > longestGap {
		after = upTo - longestGap
	}
	before := w.seen[after].at
	for rev := after + 1; rev <= upTo; rev++ {
		r, ok := w.seen[rev]
		if p := w.planOf(rev); p != nil {
			if !p.Change.Concerns(rev, key, keys) {
				continue
			}
			r, ok = p.at(rev), true
		}
		switch {
		case ok && r.kinds.has(k):
			times = append(times, r.at)
		case !ok && before != 0 && w.kinds == 1<<k:
			if next := w.seen[upTo].at; next > before {
				times = append(times, before+(next-before)*int64(rev-after)/int64(upTo-after))
			}
		}
	}
	return times
}

// planOf finds the plan that a revision belongs to. w.mu is held.
func (w *world) planOf(rev uint64) *Plan {
	for i := len(w.plans) - 1; i >= 0; i-- {
		if p := &w.plans[i]; rev >= p.First && (p.Count == 0 || rev-p.First < uint64(p.Count)) {
			return p
		}
	}
	return nil
}
