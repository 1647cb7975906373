package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/pause"
)

// TestPauses lists how a pause ends, and after how long.
func TestPauses(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	closed := make(chan struct{})
	close(closed)
	for _, c := range []struct {
		name        string
		ctx         context.Context
		d           time.Duration
		early       <-chan struct{}
		active, cut bool
		after       time.Duration
	}{
		{name: "the time is over", d: time.Second, active: true, after: time.Second},
		{name: "no time", active: true},
		{name: "less than no time", d: -time.Second, active: true},
		{name: "ended before", ctx: ended, d: time.Second},
		{name: "ended before, no time", ctx: ended},
		{name: "cut short", d: time.Second, early: closed, active: true, cut: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := c.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				began := time.Now()
				active, cut := pause.Unless(ctx, c.d, c.early)
				if active != c.active || cut != c.cut || time.Since(began) != c.after {
					t.Errorf("active %t, cut short %t after %s; expected %t, %t after %s", active, cut, time.Since(began), c.active, c.cut, c.after)
				}
			})
		})
	}
}

// TestEndsMeanwhile holds that a pause ends with its context.
func TestEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if pause.For(ctx, time.Minute) {
			t.Error("the pause outlives its context")
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the pause took %s, expected 1s", took)
		}
	})
}
