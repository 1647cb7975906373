package limit

import "time"

// gate is what the node-wide measurements say; see Limiter.Run.
type gate struct {
	ceiling int           // of streams that are not in sync; 0 for any number
	tight   bool          // too little memory is left
	lag     time.Duration // how long goroutines wait for a processor
	usage   usage
}

// percent is how much of the memory limit is in use.
func (g *gate) percent() int {
	if g.usage.limit == 0 {
		return 0
	}
	return int(g.usage.used * 100 / g.usage.limit)
}

// Memory returns how many bytes are in use that no collection would free, and the memory
// limit; both are 0 before they were measured, and the limit is where there is none.
func (l *Limiter) Memory() (used, limit uint64) {
	if g := l.gate.Load(); g != nil {
		return g.usage.used, g.usage.limit
	}
	return 0, 0
}

// admit refuses a new stream while the node has enough to do.
func (l *Limiter) admit(v *Values, s Source) error {
	g := l.gate.Load()
	if g == nil {
		return nil
	}
	if g.tight {
		return l.refusals.refuse(Memory, s.String(), g.percent(), v.MemoryPercent, "% of this node's memory are in use")
	}
	if g.ceiling == 0 {
		return nil
	}
	starting, _ := l.arrivals.starting(time.Now(), v.SyncWithin)
	if over(starting, g.ceiling) {
		return l.refusals.refuse(NewStreams, s.String(), starting, g.ceiling, "streams are not in sync yet, as many as this node brings in sync within "+v.SyncWithin.String())
	}
	return nil
}

// Came counts a stream that was entered among those that are not in sync.
func (l *Limiter) Came() Arrival {
	a, together := l.arrivals.came(time.Now())
	if together == l.Values().NewStreams { // a crowd
		select {
		case l.crowd <- struct{}{}:
		default:
		}
	}
	return a
}

// InSync says that such a stream has what there is, or waits for somebody else.
func (l *Limiter) InSync(a Arrival) { l.arrivals.done(a, true) }

// Gone says that it has ended before.
func (l *Limiter) Gone(a Arrival) { l.arrivals.done(a, false) }
