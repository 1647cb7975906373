package tier

import (
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
		if got := p.beat(time.Minute, wall, most); got != 0 {
			t.Errorf("%s: slept %s before the first beat", name, got)
		}
		if got := p.beat(time.Minute+tc.running, wall.Add(tc.wall), most); got != tc.want {
			t.Errorf("%s: slept %s, expected %s", name, got, tc.want)
		}
		if got := p.beat(time.Minute+tc.running+time.Second, wall.Add(tc.wall+time.Second), most); got != 0 {
			t.Errorf("%s: slept %s once more", name, got)
		}
	}
}
