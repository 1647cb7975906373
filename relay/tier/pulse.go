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
	back    setBack
}

// setBack is by how much the wall clock was last set back, and when, by the monotonic clock.
type setBack struct {
	by time.Duration // zero: it was not
	at time.Duration
}

const (
	// A wall clock that was set back by mistake may be set right again for so long, and this exactly. It is unlikely
	// that the machine is suspended then, for just that time.
	undoneSoon  = time.Minute
	undoneAbout = time.Second
)

// isUndone reports whether a wall clock that was set back is set right again by a step forward.
func (s setBack) isUndone(forward, running time.Duration) bool {
	return s.by > 0 && running-s.at <= undoneSoon && (forward-s.by).Abs() <= undoneAbout
}

// missed is a time for which a process seems not to have run.
type missed struct {
	slept time.Duration // by either clock; zero if it was not longer than the process may be late
	// stopped is how much of it the monotonic clock shows. If that is not too long, the machine was
	// suspended, or its wall clock was set forward.
	stopped time.Duration
}

// beat records that the process runs. It returns what it missed: a time longer than most.
func (p *pulse) beat(running time.Duration, wall time.Time, most time.Duration) (m missed) {
	if !p.wall.IsZero() {
		m.stopped = running - p.running
		forward := wall.Sub(p.wall) - m.stopped // the clock was set, or the machine suspended
		switch {
		case forward < -undoneAbout:
			p.back = setBack{-forward, running}
		case p.back.isUndone(forward, running):
			forward, p.back = 0, setBack{}
		case forward > undoneAbout:
			p.back = setBack{}
		}
		m.slept = m.stopped + max(0, forward)
	}
	p.running, p.wall = running, wall
	if m.slept <= most {
		return missed{}
	}
	return m
}

// Pulse is what WatchPulse calls. All fields are required.
type Pulse struct {
	// Beat records that the process runs, and will call Beat again within most.
	Beat func(most time.Duration)
	// Doubt takes the last beat back: clients wait until the next one.
	Doubt func()
	// Slept is called when the process did not run from a time on.
	Slept func(began time.Time)
	// ClockSet reports whether the wall clock was set forward by a time since a moment, rather than
	// the machine suspended for that time. It returns within a second.
	ClockSet func(ctx context.Context, by time.Duration, since time.Time) bool
}

// WatchPulse calls Slept when the process did not run for so long that other nodes may have taken
// over its keys: they have newer content, and so may clients that reconnect from them (K12). It
// calls Beat at intervals shorter than most while the process runs, and after Slept. It returns
// when ctx ends, and at once on a node without peers.
func (t *Tier) WatchPulse(ctx context.Context, to Pulse) {
	if t.cfg.Peers == nil {
		return
	}
	most := t.cfg.OwnerTimeout
	began := time.Now()
	var p pulse
	for {
		wall, now := t.cfg.Clock.Now(), time.Now()
		if m := p.beat(now.Sub(began), wall, most); m.slept > 0 {
			t.missedBeats(ctx, to, m, most, now)
		}
		to.Beat(most)
		if !pause.For(ctx, pause.Next(most/4)) {
			return
		}
	}
}

// missedBeats handles a time for which the process seems not to have run.
func (t *Tier) missedBeats(ctx context.Context, to Pulse, m missed, most time.Duration, now time.Time) {
	gap := m.slept.Round(time.Millisecond).String()
	if m.stopped <= most {
		// A suspended machine looks like a clock that was set, but its content is old.
		to.Doubt()
		if by := m.slept - m.stopped; to.ClockSet(ctx, by, now.Add(-m.stopped)) {
			t.cfg.Logger.Warn("the clock of this node was set forward while the process ran, according to the clocks of other nodes", "by", by.Round(time.Millisecond).String())
			return
		}
	}
	t.cfg.Logger.Warn("this process was suspended, or its clock was set; clients wait until the control plane or another node confirms the content", "for", gap)
	to.Slept(now.Add(-m.slept))
}
