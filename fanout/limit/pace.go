package limit

import (
	"math"
	"time"
)

// pace is how many streams that are not in sync a node can bear. It only calculates.
//
// A node that is not busy takes whoever comes. A busy one knows at what rate it brings
// streams in sync; as many as that makes in the time that a client should wait at most
// may be on their way, and who comes beyond would wait for longer. What it is told
// about time and load is measured once in a while, so a first rush goes through: it
// is bounded by how fast a node can accept.
type pace struct {
	rate     float64   // streams brought in sync per second
	finished uint64    // when step was called last
	last     time.Time // likewise
	since    time.Time // when the node became busy; zero if it is not
	lagged   time.Time // when it last was
}

const (
	// busyLag is for how long goroutines wait for a processor on a busy node.
	busyLag = 50 * time.Millisecond
	// calmTime is how long it has to wait less for to be busy no more.
	calmTime = 3 * time.Second
	// settleTime is how long a rate is measured before it counts.
	settleTime = 3 * time.Second
	// smoothTime is over which rates are averaged.
	smoothTime = 3 * time.Second
)

// step takes what was measured, and tells how many streams may be on their way now; 0
// for any number. lag is how long goroutines wait for a processor, starting how many
// streams are not in sync, and finished how many ever were.
func (p *pace) step(now time.Time, lag time.Duration, starting int, finished uint64, v *Values) (ceiling int) {
	elapsed := now.Sub(p.last).Seconds()
	measured := float64(finished-p.finished) / max(elapsed, 1e-3)
	first := p.last.IsZero()
	p.last, p.finished = now, finished
	if lag >= busyLag {
		p.lagged = now
		if p.since.IsZero() {
			p.since, p.rate = now, measured
		}
	} else if now.Sub(p.lagged) > calmTime {
		p.since = time.Time{}
	}
	if first || p.since.IsZero() || v.NewStreams <= 0 {
		return 0
	}
	if starting > 0 || measured > p.rate { // otherwise there was nothing to do
		p.rate += (measured - p.rate) * (1 - math.Exp(-elapsed/smoothTime.Seconds()))
	}
	if now.Sub(p.since) < settleTime {
		return 0
	}
	return max(v.NewStreams, int(p.rate*v.SyncWithin.Seconds()))
}
