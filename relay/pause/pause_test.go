package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

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

// TestNext holds that work that waits for the next moment is due together, whenever it began to wait.
func TestNext(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		half := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(r, "half"))
		began := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(r, "began"))
		var short, long, again time.Duration
		synctest.Test(t, func(*testing.T) {
			time.Sleep(began) //nolint:forbidigo // virtual time
			short, long = pause.Next(half), pause.Next(2*half)
			time.Sleep(short) //nolint:forbidigo // virtual time
			again = pause.Next(half)
		})
		if short <= 0 || short > half || long <= 0 || long > 2*half || (long-short)%half != 0 {
			r.Fatalf("%s until the next moment of each %s, %s of each %s", short, half, long, 2*half)
		}
		if again != half {
			r.Fatalf("%s until the next moment at a moment, expected %s", again, half)
		}
	})
}
