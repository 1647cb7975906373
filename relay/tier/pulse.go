package tier

import (
	"context"
	"time"

	"xdsrelay/relay/pause"
)

// pulse detects that this process did not run for a while, because it was stopped or its machine
// was suspended. It is pure: WatchPulse drives it.
type pulse struct {
	running time.Duration // when the process last ran, by the monotonic clock, which may stop while a machine is suspended
	wall    time.Time     // the same by the wall clock, which may be set
}

// beat records that the process runs. It returns for how long the process did not run, if that was
// longer than most by either clock, and otherwise zero.
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

// WatchPulse calls slept when the process did not run for so long that other nodes may have taken
// over its keys: they have newer content, and so may clients that reconnect from them (K12). It
// calls beat at intervals shorter than most while the process runs, and after slept. It returns
// when ctx ends, and at once on a node without peers.
func (t *Tier) WatchPulse(ctx context.Context, beat func(most time.Duration), slept func(began time.Time)) {
	if t.cfg.Peers == nil {
		return
	}
	most := t.cfg.OwnerTimeout
	began := time.Now()
	var p pulse
	for {
		wall, now := t.cfg.Clock.Now(), time.Now()
		if gap := p.beat(now.Sub(began), wall, most); gap > 0 {
			t.cfg.Logger.Warn("this process did not run for a while, or its clock was set; clients wait until the control plane or another node has confirmed what they get", "for", gap.Round(time.Millisecond).String())
			slept(now.Add(-gap))
		}
		beat(most)
		if !pause.For(ctx, pause.Next(most/4)) {
			return
		}
	}
}
