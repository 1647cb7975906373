package shard

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClock: a moment keeps its age as a stamp, also where the clock is wrong or was set since.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead time.Duration
		for name, c := range map[string]Clock{"the machine's": nil, "another": func() time.Time { return time.Now().Add(ahead).Round(0) }} {
			ahead = -time.Minute
			moment := time.Now()
			time.Sleep(3 * time.Second) //nolint:forbidigo // virtual time
			if ahead = time.Hour; c == nil {
				ahead = 0
			}
			stamp := c.Stamp(moment)
			if want := moment.Add(ahead); !stamp.Equal(want) {
				t.Errorf("%s: the stamp is %v, expected %v", name, stamp, want)
			}
			if age := c.Now().Sub(stamp); age != 3*time.Second {
				t.Errorf("%s: the age is %v", name, age)
			}
			if got := c.Moment(stamp); !got.Equal(moment) {
				t.Errorf("%s: the moment is %v, expected %v", name, got, moment)
			}
			if !c.Stamp(time.Time{}).IsZero() || !c.Moment(time.Time{}).IsZero() {
				t.Errorf("%s: no time became one", name)
			}
		}
	})
}

// TestPast: what a clock that was wrong has stamped is in the future, and proves nothing.
func TestPast(t *testing.T) {
	now := time.Unix(1000, 0)
	for ahead, want := range map[time.Duration]time.Time{
		-time.Hour: now.Add(-time.Hour), 0: now, time.Second: now, clocksDiffer: now, clocksDiffer + 1: {}, time.Hour: {},
	} {
		if got := Past(now.Add(ahead), now); !got.Equal(want) {
			t.Errorf("%s ahead: %v, expected %v", ahead, got, want)
		}
	}
}
