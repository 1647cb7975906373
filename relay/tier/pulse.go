package tier

import (
	"context"
	"time"
)

// pulse notices that this process did not run for a while: it was stopped, or its machine
// slept. It is pure: see WatchPulse.
type pulse struct {
	running time.Duration // by a clock that nobody sets, when it last ran; it may stand still while a machine sleeps
	wall    time.Time     // by the clock on the wall, which may be set
}

// beat notes that the process runs, and returns for how long it did not, if either clock
// says that this was longer than most.
func (p *pulse) beat(running time.Duration, wall time.Time, most time.Duration) (slept time.Duration) {
	if !p.wall.IsZero() {
		slept = max(running-p.running, wall.Sub(p.wall))
	}
	p.running, p.wall = running, wall
	if slept <= most {
		return 0
	}
	return slept
}

// WatchPulse calls slept when the process has not run for so long that other nodes may have
// taken its place: they have newer content, and so may clients that come from them (K12).
// It calls beat often while the process runs, which it does again within most, and after
// slept. It returns when ctx ends, and at once on a node that is on its own.
func (t *Tier) WatchPulse(ctx context.Context, beat func(most time.Duration), slept func(began time.Time)) {
	if t.cfg.Peers == nil {
		return
	}
	most := t.cfg.OwnerTimeout
	ticker := time.NewTicker(most / 4)
	defer ticker.Stop()
	began := time.Now()
	var p pulse
	for {
		now := time.Now()
		if gap := p.beat(now.Sub(began), now.Round(0), most); gap > 0 {
			t.cfg.Logger.Warn("this process did not run for a while, or its clock was set; clients wait until the control plane or another node has confirmed what they get", "for", gap.Round(time.Millisecond).String())
			slept(now.Add(-gap))
		}
		beat(most)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
