package upstream

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/connectivity"
)

// dialed is a wire that counts the attempts to connect.
type dialed struct {
	*wire
	connects atomic.Int64
}

func (d *dialed) Connect() { d.connects.Add(1) }

// watched runs f in virtual time while a control plane from which no key wants anything is watched.
func watched(t *testing.T, from connectivity.State, f func(cp *ControlPlane, w *dialed, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		w := &dialed{wire: newWire(func(*wireStream) error { return nil })}
		w.set(from)
		var log bytes.Buffer // written and read in turns
		cp, err := newControlPlane(ControlPlaneConfig{Addresses: []string{"cp.example:18000"}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(string, *ControlPlaneConfig) (channel, error) { return w, nil })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			cp.Watch(ctx)
		}()
		synctest.Wait()
		f(cp, w, &log)
		if n := len(w.opens()); n > 0 {
			t.Errorf("%d streams were opened, though no key wants anything", n)
		}
		cancel()
		<-done
	})
}

// TestWatchUnreachable: a server that cannot be reached is a problem before any key wants something
// from it. It is logged once however long it lasts, and is no problem any more when there is a
// connection.
func TestWatchUnreachable(t *testing.T) {
	watched(t, connectivity.TransientFailure, func(cp *ControlPlane, w *dialed, log *bytes.Buffer) {
		since := time.Now().UTC().Format(time.RFC3339)
		for range 5 {
			if got := strings.Join(cp.Problems(), "\n"); !strings.HasPrefix(got, "cp.example:18000: no connection since "+since+": ") || !strings.Contains(got, "no connection") {
				t.Fatalf("problems: %q", got)
			}
			<-time.After(time.Hour)
			w.set(connectivity.Connecting)
			synctest.Wait()
			w.set(connectivity.TransientFailure)
			synctest.Wait()
		}
		if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "cannot connect to the control plane") || !strings.Contains(text, "address=cp.example:18000") {
			t.Errorf("log, expected one warning:\n%s", text)
		}
		w.set(connectivity.Ready)
		synctest.Wait()
		if got := cp.Problems(); len(got) > 0 {
			t.Errorf("problems with a connection: %q", got)
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "the control plane is reachable again") || !strings.Contains(text, "down_for=5h0m") {
			t.Errorf("log, expected the return as the second line:\n%s", text)
		}
	})
}

// TestWatchIdle: a connection is made at the start, and again when it ends. With a server that
// closes each at once, attempts become fewer and fewer.
func TestWatchIdle(t *testing.T) {
	watched(t, connectivity.Idle, func(cp *ControlPlane, w *dialed, log *bytes.Buffer) {
		if n := w.connects.Load(); n != 1 {
			t.Fatalf("%d attempts to connect at the start, expected 1", n)
		}
		w.set(connectivity.Ready)
		synctest.Wait()
		for began := time.Now(); time.Since(began) < 10*time.Hour; {
			before := w.connects.Load()
			w.set(connectivity.Idle)
			<-time.After(2 * lastPause) // longer than any pause with its jitter
			synctest.Wait()
			if n := w.connects.Load(); n != before+1 {
				t.Fatalf("%d attempts after a connection has ended, expected 1", n-before)
			}
			w.set(connectivity.Ready)
			synctest.Wait()
		}
		if got := cp.Problems(); len(got) > 0 || log.Len() > 0 {
			t.Errorf("problems %q, log:\n%s", got, log)
		}
	})
	// Connections that end at once.
	watched(t, connectivity.Idle, func(_ *ControlPlane, w *dialed, _ *bytes.Buffer) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Hour)
		defer cancel()
		for seen := int64(0); ctx.Err() == nil; {
			if n := w.connects.Load(); n != seen {
				seen = n
				w.set(connectivity.Ready)
				synctest.Wait()
				w.set(connectivity.Idle)
			}
			<-time.After(time.Second)
		}
		if n := w.connects.Load(); n < 100 || n > 200 {
			t.Errorf("%d attempts in 10 hours, expected about one in 5 minutes", n)
		}
	})
}
