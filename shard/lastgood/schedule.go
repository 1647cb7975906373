package lastgood

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"xdsrelay/relay/lockorder"
)

// atOnce bounds the turns that run at the same time: the store may be slow, and few keys must not
// delay all others. Their writes are bounded by writers in addition.
const atOnce = 32

// schedule begins the turns of all keys that this node owns. There is a goroutine for each turn, and
// none while nothing is to be done.
type schedule struct {
	// Fixed after construction.
	delay time.Duration // from a change to its write
	work  sync.WaitGroup

	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	waiting timeline
	keys    map[string]*owned
	turns   int         // that run now
	timer   *time.Timer // begins the next turn; nil before the first key
	at      time.Time   // when the timer fires; zero if it does not
}

// running is the turn of a key.
type running struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it is over
}

// add begins to keep time for a key, whose plan has been made.
func (s *schedule) add(o *owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = make(map[string]*owned)
	}
	s.keys[o.key] = o
	heap.Push(&s.waiting, o)
	s.beginLocked()
}

// changed records that a key has changed. It does not block.
func (s *schedule) changed(o *owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.plan.changed(time.Now(), s.delay)
	s.movedLocked(o)
}

// lost records that the store may have lost the records of a key. It does not block.
func (s *schedule) lost(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.keys[key]; o != nil {
		o.plan.lost(time.Now())
		s.movedLocked(o)
	}
}

// movedLocked is called when the next turn of a key may begin at another time.
func (s *schedule) movedLocked(o *owned) {
	if o.place != nowhere {
		heap.Fix(&s.waiting, o.place)
		s.beginLocked()
	}
}

// end ends a key, and waits for its turn, whose context it cancels.
func (s *schedule) end(o *owned) {
	s.mu.Lock()
	o.plan.end()
	if s.keys[o.key] == o {
		delete(s.keys, o.key)
	}
	if o.place != nowhere {
		heap.Remove(&s.waiting, o.place)
		s.beginLocked()
	}
	r := o.running
	s.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// beginLocked begins the turns whose time has come, as many as may run, and sets the timer for the
// next one.
func (s *schedule) beginLocked() {
	now := time.Now()
	for len(s.waiting) > 0 && s.turns < atOnce && !s.waiting.first().After(now) {
		o := heap.Pop(&s.waiting).(*owned)
		ctx, cancel := context.WithCancel(context.Background())
		o.running = &running{cancel, make(chan struct{})}
		t := o.plan.begin(now, checkEvery*3/4+rand.N(checkEvery/2))
		s.turns++
		s.work.Go(func() {
			defer cancel()
			s.over(o, o.do(ctx, t))
		})
	}
	at := time.Time{}
	if len(s.waiting) > 0 && s.turns < atOnce { // otherwise the end of a turn begins the next one
		at = s.waiting.first()
	}
	switch {
	case at.Equal(s.at):
	case at.IsZero():
		s.timer.Stop()
	case s.timer == nil:
		s.timer = time.AfterFunc(at.Sub(now), s.begin)
	default:
		s.timer.Reset(at.Sub(now))
	}
	s.at = at
}

// begin begins the turns whose time has come.
func (s *schedule) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	s.beginLocked()
}

// over records the outcome of a key's turn.
func (s *schedule) over(o *owned, is outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns--
	close(o.running.done)
	o.running = nil
	o.plan.over(time.Now(), s.delay, is)
	if o.plan.doing != ending {
		heap.Push(&s.waiting, o)
	}
	s.beginLocked()
}

// timeline is a heap of keys by when their next turn begins.
type timeline []*owned

// nowhere is the place of a key that is not in the timeline.
const nowhere = -1

// first returns when the first turn begins. There must be one.
func (l timeline) first() time.Time {
	at, _ := l[0].plan.next()
	return at
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (l timeline) Len() int { return len(l) }

func (l timeline) Less(i, j int) bool {
	a, _ := l[i].plan.next()
	b, _ := l[j].plan.next()
	return a.Before(b)
}

func (l timeline) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push adds an *owned at the end.
func (l *timeline) Push(x any) {
	o := x.(*owned)
	o.place = len(*l)
	*l = append(*l, o)
}

// Pop removes the last one.
func (l *timeline) Pop() any {
	n := len(*l) - 1
	o := (*l)[n]
	(*l)[n] = nil
	*l = (*l)[:n]
	o.place = nowhere
	return o
}
