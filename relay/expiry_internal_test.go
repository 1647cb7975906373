package relay

import (
	"testing"
	"time"
)

// TestBadCertificates: a certificate is told of in the last fifth of its life, after
// its end and before its beginning, and not in between.
func TestBadCertificates(t *testing.T) {
	from := time.Unix(10_000, 0)
	until := from.Add(20 * time.Hour)
	var e expiries
	e.watch("listener", func() (time.Time, time.Time) { return from, until })
	e.watch("upstream", func() (a, b time.Time) { return a, b }) // none
	for _, tc := range []struct {
		at           time.Duration
		bad          bool
		ended, early bool
	}{{-time.Second, true, false, true}, {0, false, false, false}, {16*time.Hour - time.Second, false, false, false}, {16*time.Hour + time.Second, true, false, false}, {20 * time.Hour, true, true, false}} {
		got := e.bad(from.Add(tc.at))
		if len(got) == 1 != tc.bad || tc.bad && (got[0].Field != "listener" || got[0].Expired != tc.ended || got[0].NotYetValid != tc.early || !got[0].Until.Equal(until)) {
			t.Errorf("%v after its beginning: %+v", tc.at, got)
		}
	}
}
