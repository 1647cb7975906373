package limit

import "time"

// measurement is the last measurement of the node; see Limiter.Run.
type measurement struct {
	ceiling int           // of streams that are not in sync; 0 means unlimited
	tight   bool          // memory is nearly used up
	lag     time.Duration // goroutine scheduling latency
	usage   usage
}

// percent returns the share of the memory limit in use.
func (g *measurement) percent() int {
	if g.usage.limit == 0 {
		return 0
	}
	return int(g.usage.used * 100 / g.usage.limit)
}

// ratio returns the part of the memory limit that is in use; 0 without a limit.
func (u usage) ratio() float64 {
	if u.limit == 0 {
		return 0
	}
	return float64(u.used) / float64(u.limit)
}

// Memory returns the bytes in use that a garbage collection would not free, and the memory limit.
// Both are 0 until measured; limit is 0 if there is none.
func (l *Limiter) Memory() (used, limit uint64) {
	if g := l.measurement.Load(); g != nil {
		return g.usage.used, g.usage.limit
	}
	return 0, 0
}

// admit refuses a new stream while the node is overloaded.
func (l *Limiter) admit(v *Values, s Source) error {
	g := l.measurement.Load()
	if g == nil {
		return nil
	}
	if g.tight {
		return l.refusals.refuse(Memory, s.String(), g.percent(), v.MemoryPercent, "% of this node's memory limit is in use")
	}
	if g.ceiling == 0 {
		return nil
	}
	starting, _ := l.arrivals.starting(time.Now(), v.SyncWithin)
	if over(starting, g.ceiling) {
		return l.refusals.refuse(NewStreams, s.String(), starting, g.ceiling, "streams are not in sync yet, which is what this node can bring in sync within "+v.SyncWithin.String())
	}
	return nil
}

// StreamStarted counts an admitted stream as not in sync.
func (l *Limiter) StreamStarted() Arrival {
	a, together := l.arrivals.started(time.Now())
	if together == l.Values().NewStreams { // a burst
		select {
		case l.burstSignal <- struct{}{}:
		default:
		}
	}
	return a
}

// InSync records that such a stream has all available content, or waits for something other than
// this node.
func (l *Limiter) InSync(a Arrival) { l.arrivals.done(a, true) }

// StreamEnded records that such a stream ended before it was in sync.
func (l *Limiter) StreamEnded(a Arrival) { l.arrivals.done(a, false) }
