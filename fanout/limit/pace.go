package limit

import (
	"math"
	"time"
)

// pace decides how many streams that are not in sync the node can handle. It is pure: it neither
// measures nor acts.
//
// A node that is not busy admits every stream. A busy node knows the rate at which it brings
// streams in sync; it admits as many streams as it brings in sync within the time that a client
// should wait at most. A stream beyond that would wait longer. The rate is measured while there are
// enough streams to bring in sync, and remembered: otherwise the node would know nothing when a
// burst arrives. The first burst is admitted for a while in order to measure.
type pace struct {
	rate       float64       // streams brought in sync per second
	learned    time.Duration // how long the rate was measured with enough streams
	finished   uint64        // at the last call of step
	measurable bool          // at the last call: there were enough streams to measure
	last       time.Time     // the last call
	busy       bool
	lagged     time.Time // when the scheduling latency was last at least busyLag
}

const (
	// busyLag is the goroutine scheduling latency of a busy node.
	busyLag = 50 * time.Millisecond
	// calmTime is how long the latency must stay below busyLag until the node is no longer busy.
	calmTime = 3 * time.Second
	// learnTime is how long the rate must be measured before it is used.
	learnTime = 3 * time.Second
	// forgetTime is the time constant for forgetting a higher rate: at the start of a burst,
	// streams only arrive.
	forgetTime = 5 * time.Second
)

// step returns how many streams may be out of sync now; 0 means unlimited. lag is the goroutine
// scheduling latency, starting is how many streams are not in sync, and finished is how many ever
// came in sync.
func (p *pace) step(now time.Time, lag time.Duration, starting int, finished uint64, v *Values) (ceiling int) {
	elapsed := now.Sub(p.last)
	measured := float64(finished-p.finished) / max(elapsed.Seconds(), 1e-3)
	before, first := p.measurable, p.last.IsZero()
	p.last, p.finished, p.measurable = now, finished, starting >= v.NewStreams
	if lag >= busyLag {
		p.lagged, p.busy = now, true
	}
	p.busy = p.busy && now.Sub(p.lagged) <= calmTime
	if first || !p.busy || v.NewStreams <= 0 {
		return 0
	}
	if before && p.measurable {
		p.learned += elapsed
		p.rate += (measured - p.rate) * (1 - math.Exp(-elapsed.Seconds()/forgetTime.Seconds()))
	}
	p.rate = max(p.rate, measured) // the node can do at least what it just did
	if p.learned < learnTime {
		return 0
	}
	return max(v.NewStreams, int(p.rate*v.SyncWithin.Seconds()))
}
