package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// A control plane may change a type far more often than its clients need it. With a minimum interval
// for the type, the first change after a quiet time is sent at once, and all that follow in the
// interval are sent at its end as one response with the newest content.
//
// The interval belongs to the subscription, not to the client: it begins when the clients of a
// subscription are woken. So all of them are woken together and are in one position, where they share
// a body, a change in between costs nothing per client, and one timer serves all subscriptions with
// intervals of the same length. With an interval for each client, from its own last response on,
// clients would be in as many positions as there are moments at which they were answered.
//
// What may not be delayed is not: wakes are late only if nothing but content has changed
// ([cache.WakeState.OnlyContent]), only for clients that have agreed ([cache.Table.Pace]), and
// [conversation.Conversation.MayPace] has the last word about each of them. A client that finds
// changes between two wakes, because of a request of its own or of a change of another type, leaves
// them for the end of the interval, unless it has not been sent all that was there at its begin.

// pacing is the intervals that are not over. It is guarded by the mu of its pool.
type pacing struct {
	intervals map[*cache.Subscription]*interval
	queues    map[time.Duration]*intervalQueue // by length
}

// interval is the time after the clients of a subscription were woken.
type interval struct {
	sub *cache.Subscription
	// began is the state of the subscription when its clients were woken, and newest the newest
	// generation of which the pool knows.
	began  cache.WakeState
	newest uint64
	end    time.Time
	// pending says that the clients have to be woken at the end.
	pending bool
}

// intervalQueue is the intervals of one length, in the order of their ends. The timer runs while
// there are any.
type intervalQueue struct {
	length    time.Duration
	intervals []*interval
	timer     *time.Timer
}

// SetIntervals sets the minimum intervals, by type URL; a type that is not among them has none. All
// changes that wait for the end of an interval are sent now.
func (p *Pool) SetIntervals(byType map[string]time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lengths.Store(nil)
	if len(byType) > 0 {
		p.lengths.Store(&byType)
	}
	for _, i := range p.pacing.intervals {
		p.enqueueLocked(wakeUp{sub: i.sub})
	}
	p.endAllLocked()
	p.cond.Broadcast()
}

// intervalOf is the minimum interval of a type; 0 for none.
func (p *Pool) intervalOf(typeURL string) time.Duration {
	if byType := p.lengths.Load(); byType != nil {
		return (*byType)[typeURL]
	}
	return 0
}

// endAllLocked forgets all intervals.
func (p *Pool) endAllLocked() {
	for _, q := range p.pacing.queues {
		q.timer.Stop()
	}
	p.pacing = pacing{}
}

// intervalFor is the minimum interval of a subscription.
func (p *Pool) intervalFor(s *cache.Subscription) time.Duration {
	if p.lengths.Load() == nil {
		return 0
	}
	_, t := s.Of()
	return p.intervalOf(t.URL)
}

// pace queues those clients of a subscription with news that are to be woken now.
func (p *Pool) pace(sub *cache.Subscription, length time.Duration) {
	state := sub.WakeState() // before mu is locked, which is a leaf
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.pacing.intervals[sub]
	switch {
	case i == nil:
		p.beginLocked(sub, state, length)
		p.enqueueLocked(wakeUp{sub: sub})
	case i.began.OnlyContent(state) && state.Gen > i.newest:
		i.newest, i.pending = state.Gen, true
		if state.Prompt {
			p.enqueueLocked(wakeUp{sub: sub, prompt: true})
		}
	default:
		i.began, i.newest, i.pending = state, max(i.newest, state.Gen), false
		p.enqueueLocked(wakeUp{sub: sub})
	}
}

// beginLocked begins an interval of a subscription whose clients are woken now.
func (p *Pool) beginLocked(sub *cache.Subscription, state cache.WakeState, length time.Duration) {
	if p.closed {
		return
	}
	if p.pacing.intervals == nil {
		p.pacing.intervals, p.pacing.queues = make(map[*cache.Subscription]*interval), make(map[time.Duration]*intervalQueue)
	}
	i := &interval{sub: sub, began: state, newest: state.Gen}
	p.pacing.intervals[sub] = i
	p.lineUpLocked(i, length)
}

// lineUpLocked sets the end of an interval that begins now.
func (p *Pool) lineUpLocked(i *interval, length time.Duration) {
	q := p.pacing.queues[length]
	if q == nil {
		q = &intervalQueue{length: length}
		q.timer = time.AfterFunc(length, func() { p.endOf(q) })
		p.pacing.queues[length] = q
	}
	i.end = time.Now().Add(length)
	q.intervals = append(q.intervals, i)
}

// endOf ends the intervals of a queue whose time is over. Where changes have waited, the clients are
// woken and the next interval begins.
func (p *Pool) endOf(q *intervalQueue) {
	over := p.takeOver(q)
	for _, i := range over {
		state := i.sub.WakeState()
		p.mu.Lock()
		if p.pacing.intervals[i.sub] == i { // no other intervals were set
			i.began, i.newest = state, max(i.newest, state.Gen)
		}
		p.enqueueLocked(wakeUp{sub: i.sub})
		p.mu.Unlock()
		p.cond.Broadcast()
	}
}

// takeOver removes the intervals whose time is over from a queue, and begins and returns those in which
// changes wait.
func (p *Pool) takeOver(q *intervalQueue) (waited []*interval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pacing.queues[q.length] != q {
		return nil // other intervals were set, or the pool is closed
	}
	now, n := time.Now(), 0
	for ; n < len(q.intervals) && !q.intervals[n].end.After(now); n++ {
		i := q.intervals[n]
		if !i.pending {
			delete(p.pacing.intervals, i.sub)
			continue
		}
		i.pending = false
		waited = append(waited, i)
	}
	clear(q.intervals[:n])
	q.intervals = q.intervals[n:]
	for _, i := range waited {
		p.lineUpLocked(i, q.length)
	}
	if len(q.intervals) == 0 {
		delete(p.pacing.queues, q.length)
		return nil
	}
	q.timer.Reset(time.Until(q.intervals[0].end))
	return waited
}

// leaves reports whether a client that was sent a subscription up to a generation has to leave the
// changes since then for the end of the interval. It is woken then.
func (p *Pool) leaves(sub *cache.Subscription, id, sent uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.pacing.intervals[sub]
	if i == nil || !i.began.Settled || i.began.Subscription != id || sent < i.began.Gen {
		return false
	}
	i.pending = true
	return true
}

// isPacedLocked reports whether the changes of a type wait for the end of an interval. It is asked
// only where [conversation.Conversation.MayPace] says so. Other nodes get every change at once, since
// they have intervals of their own, and so do clients that have just reconnected (E5).
func (s *stream) isPacedLocked(ts *typeState, h *cache.SubscriptionState, now time.Time) bool {
	if s.srv.cfg.Pool.intervalOf(ts.table.Type.URL) == 0 || s.tier != nil || ts.claims.pending() {
		return false
	}
	if s.back != nil && s.back.since.Add(resumeLimit).After(now) || !h.Unsettled.IsZero() {
		return false
	}
	sub := ts.table.Subscription(&ts.watcher)
	return sub != nil && s.srv.cfg.Pool.leaves(sub, h.Subscription, ts.Sent.Gen)
}

// agreeLocked records that the client leaves changes for the end of an interval, so it need not be
// woken before that.
func (s *stream) agreeLocked(ts *typeState) {
	if !ts.paced {
		ts.paced = true
		ts.table.Pace(&ts.watcher, true)
	}
}

// hurryLocked records that the client needs the next change at once, since it has rejected a response
// (B16).
func (s *stream) hurryLocked(ts *typeState) {
	if s.srv.cfg.Pool.intervalOf(ts.table.Type.URL) > 0 {
		ts.paced = false
		ts.table.Pace(&ts.watcher, false)
	}
}

// awaitLocked makes the changes of paced types due that other types wait for: kept are the types with
// removals that are held back (E5, E8), and ordered those whose changes must not overtake (E2). It
// reports whether there are any.
func (s *stream) awaitLocked(kept, ordered uint64) (due bool) {
	for _, ts := range s.types {
		if ts.Wait != conversation.Paced {
			continue
		}
		for i, o := range s.types {
			if kept&(1<<i) != 0 && o.referredToBy(ts) || ordered&(1<<i) != 0 && ts.supplies() {
				ts.Mark(conversation.Awaited, true)
				ts.Wait, due = conversation.NothingNew, true
				break
			}
		}
	}
	return due
}
