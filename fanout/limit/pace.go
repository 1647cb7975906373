package limit

import (
	"math"
	"time"
)

// pace is how many streams that are not in sync a node can bear. It only calculates.
//
// A node that is not busy takes whoever comes. A busy one knows at what rate it brings
// streams in sync; as many as that makes in the time that a client should wait at most
// may be on their way, and who comes beyond would wait for longer. The rate is that of
// times in which there was enough to do, and is remembered: otherwise a node would know
// nothing when a crowd comes. The first crowd ever is let in for a while, to learn from.
type pace struct {
	rate     float64       // streams brought in sync per second
	learned  time.Duration // for how long that was measured with enough to do
	finished uint64        // when step was called last
	crowded  bool          // likewise: there were enough streams to learn from
	last     time.Time     // likewise
	busy     bool
	lagged   time.Time // when it last had to wait for so long
}

const (
	// busyLag is for how long goroutines wait for a processor on a busy node.
	busyLag = 50 * time.Millisecond
	// calmTime is how long it has to wait less for to be busy no more.
	calmTime = 3 * time.Second
	// learnTime is how long a node has to have enough to do before it knows its rate.
	learnTime = 3 * time.Second
	// forgetTime is over which time a higher rate is forgotten: at first a crowd only
	// arrives.
	forgetTime = 5 * time.Second
)

// step takes what was measured, and tells how many streams may be on their way now; 0
// for any number. lag is how long goroutines wait for a processor, starting how many
// streams are not in sync, and finished how many ever were.
func (p *pace) step(now time.Time, lag time.Duration, starting int, finished uint64, v *Values) (ceiling int) {
	elapsed := now.Sub(p.last)
	measured := float64(finished-p.finished) / max(elapsed.Seconds(), 1e-3)
	before, first := p.crowded, p.last.IsZero()
	p.last, p.finished, p.crowded = now, finished, starting >= v.NewStreams
	if lag >= busyLag {
		p.lagged, p.busy = now, true
	}
	p.busy = p.busy && now.Sub(p.lagged) <= calmTime
	if first || !p.busy || v.NewStreams <= 0 {
		return 0
	}
	if before && p.crowded {
		p.learned += elapsed
		p.rate += (measured - p.rate) * (1 - math.Exp(-elapsed.Seconds()/forgetTime.Seconds()))
	}
	p.rate = max(p.rate, measured) // whatever there was to do: it can do that
	if p.learned < learnTime {
		return 0
	}
	return max(v.NewStreams, int(p.rate*v.SyncWithin.Seconds()))
}
