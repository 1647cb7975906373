package tier

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// TestPulse: the monotonic clock shows that a process was stopped, and the wall clock, which may also
// be set back, that a machine was suspended.
func TestPulse(t *testing.T) {
	const most = 2 * time.Second
	for name, tc := range map[string]struct{ running, wall, want time.Duration }{
		"in time":                         {500 * time.Millisecond, 500 * time.Millisecond, 0},
		"late":                            {most, most, 0},
		"stopped":                         {9 * time.Second, 9 * time.Second, 9 * time.Second},
		"the machine slept":               {500 * time.Millisecond, time.Hour, time.Hour},
		"the clock was set back":          {500 * time.Millisecond, -time.Hour, 0},
		"stopped, and the clock set back": {5 * time.Second, -time.Hour, 5 * time.Second},
	} {
		var p pulse
		wall := time.Unix(1000, 0)
		if got := p.beat(time.Minute, wall, most).slept; got != 0 {
			t.Errorf("%s: slept %s before the first beat", name, got)
		}
		got := p.beat(time.Minute+tc.running, wall.Add(tc.wall), most)
		if got.slept != tc.want {
			t.Errorf("%s: slept %s, expected %s", name, got.slept, tc.want)
		}
		if got.slept > 0 && got.stopped != tc.running {
			t.Errorf("%s: stopped for %s, expected %s", name, got.stopped, tc.running)
		}
		if got := p.beat(time.Minute+tc.running+time.Second, wall.Add(tc.wall+time.Second), most).slept; got != 0 {
			t.Errorf("%s: slept %s once more", name, got)
		}
	}
}

// TestSetBack: a clock that was set back, and is right again soon, shows no sleep. Any other step forward does.
func TestSetBack(t *testing.T) {
	const most, step = 2 * time.Second, 500 * time.Millisecond
	for name, tc := range map[string]struct{ running, forward, want time.Duration }{
		"right again":              {step, time.Hour, 0},
		"almost":                   {step, time.Hour - 800*time.Millisecond, 0},
		"by less":                  {step, time.Hour - 5*time.Second, time.Hour - 5*time.Second + step},
		"by more":                  {step, time.Hour + 5*time.Second, time.Hour + 5*time.Second + step},
		"late":                     {2 * time.Minute, time.Hour, time.Hour + 2*time.Minute},
		"stopped, and right again": {9 * time.Second, time.Hour, 9 * time.Second},
	} {
		var p pulse
		running, wall := time.Minute, time.Unix(1e6, 0)
		beat := func(d, set time.Duration) time.Duration {
			running, wall = running+d, wall.Add(d+set)
			return p.beat(running, wall, most).slept
		}
		beat(0, 0)
		if got := beat(step, -time.Hour); got != 0 {
			t.Errorf("%s: slept %s as the clock was set back", name, got)
		}
		if got := beat(tc.running, tc.forward); got != tc.want {
			t.Errorf("%s: slept %s, expected %s", name, got, tc.want)
		}
		if got := beat(step, time.Hour); got != time.Hour+step {
			t.Errorf("%s: a second step forward shows a sleep of %s", name, got)
		}
	}
}

// TestMissedBeats: where only the wall clock shows that the process did not run, clients wait until it
// is known whether the clock was set, and go on as before if it was. Nobody is asked if the process
// was stopped.
func TestMissedBeats(t *testing.T) {
	const most, since = 2 * time.Second, time.Second / 2
	for name, tc := range map[string]struct {
		missed missed
		set    bool
		want   []string
	}{
		"stopped":                   {missed{slept: time.Minute, stopped: time.Minute}, true, []string{"slept 1m0s"}},
		"suspended":                 {missed{slept: time.Minute, stopped: since}, false, []string{"doubt", "asked 59.5s", "slept 1m0s"}},
		"the clock was set":         {missed{slept: time.Minute, stopped: since}, true, []string{"doubt", "asked 59.5s"}},
		"stopped and the clock set": {missed{slept: time.Hour, stopped: time.Minute}, true, []string{"slept 1h0m0s"}},
	} {
		var did []string
		now := time.Now()
		tier := &Tier{cfg: Config{Logger: slog.New(slog.DiscardHandler)}}
		tier.missedBeats(t.Context(), Pulse{
			Doubt: func() { did = append(did, "doubt") },
			Slept: func(began time.Time) { did = append(did, "slept "+now.Sub(began).String()) },
			ClockSet: func(_ context.Context, by time.Duration, at time.Time) bool {
				if now.Sub(at) != since {
					t.Errorf("%s: since %s ago", name, now.Sub(at))
				}
				did = append(did, "asked "+by.String())
				return tc.set
			},
		}, tc.missed, most, now)
		if !slices.Equal(did, tc.want) {
			t.Errorf("%s: %q, expected %q", name, did, tc.want)
		}
	}
}
