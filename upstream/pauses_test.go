package upstream

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// nextAttempt returns the time of the next attempt from the only problem of cp.
func nextAttempt(t *testing.T, cp *ControlPlane) time.Time {
	t.Helper()
	all := cp.Problems()
	if len(all) != 1 {
		t.Fatalf("the problems are %q, expected one", all)
	}
	_, text, found := strings.Cut(all[0], "; next attempt at ")
	at, err := time.Parse(time.RFC3339, text)
	if !found || err != nil {
		t.Fatalf("the problem is %q, expected the next attempt at its end: %v", all[0], err)
	}
	return at
}

// TestNextAttemptIsShown: a server that ends all streams is a problem whose text has the time of
// the next attempt of any key, and the attempt is made at that time (C13).
func TestNextAttemptIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(s *wireStream) error {
			s.recv()
			return status.Error(codes.Unavailable, "no")
		})
		virtual(t, false, w, func(r *rig) {
			for i := range 3 {
				r.join(fmt.Sprint("k", i)).want(cds, "a")
			}
			for range 100 {
				<-time.After(10 * time.Second)
				synctest.Wait()
				before, at := len(w.opens()), nextAttempt(t, r.cp)
				if wait := time.Until(at); wait < 0 || wait > 37*time.Second {
					t.Fatalf("the next attempt is said to come in %v", wait)
				}
				<-time.After(time.Until(at)) // the text is rounded up to a second
				synctest.Wait()
				opens := w.opens()
				if len(opens) == before || at.Sub(opens[before]) >= time.Second {
					t.Fatalf("%d attempts until %v, expected the first in the second before that", len(opens)-before, at)
				}
			}
		})
	})
}

// TestNextConnectIsShown: without a connection the problem says within which time there is an
// attempt to connect: gRPC makes these, and does not expose when.
func TestNextConnectIsShown(t *testing.T) {
	watched(t, connectivity.TransientFailure, func(cp *ControlPlane, w *dialed, _ *bytes.Buffer) {
		if got := strings.Join(cp.Problems(), "\n"); !strings.HasSuffix(got, "; next attempt to connect within 36s") {
			t.Errorf("the problems are %q", got)
		}
		w.set(connectivity.Connecting)
		synctest.Wait()
		if got := strings.Join(cp.Problems(), "\n"); !strings.HasSuffix(got, "; connecting now") {
			t.Errorf("while it connects the problems are %q", got)
		}
	})
}

// TestReconnect: Reconnect ends the pauses of all keys. Their attempts are spread and start with
// the shortest pause again. Open streams are not affected.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 50
		var serving atomic.Bool
		w := newWire(func(s *wireStream) error {
			s.recv()
			if !serving.Load() {
				return status.Error(codes.ResourceExhausted, "no")
			}
			s.respond("a")
			<-s.ctx.Done()
			return nil
		})
		virtual(t, false, w, func(r *rig) {
			serving.Store(true)
			r.join("works").want(cds, "a").waitState(cds, "a")
			serving.Store(false)
			for i := range keys {
				r.join(fmt.Sprint("k", i)).want(cds, "a")
			}
			<-time.After(10 * time.Minute)
			synctest.Wait()
			before := len(w.opens())
			ordered := time.Now()
			r.cp.Reconnect()
			<-time.After(800 * time.Millisecond) // less than the shortest pause
			synctest.Wait()
			opens := w.opens()[before:]
			if len(opens) != keys {
				t.Fatalf("%d attempts of %d keys after the order", len(opens), keys)
			}
			if first, last := opens[0].Sub(ordered), opens[keys-1].Sub(ordered); last > spreadPerKey*(keys+2) || first == last {
				t.Errorf("the attempts came after %v to %v, expected them spread over %v", first, last, spreadPerKey*keys)
			}
			<-time.After(time.Second) // more than the shortest pause, and less than two
			synctest.Wait()
			if again := len(w.opens()) - before; again != 2*keys {
				t.Errorf("%d attempts after the order, expected %d: the first pause again", again, 2*keys)
			}
			serving.Store(true)
			r.cp.Reconnect()
			<-time.After(time.Second)
			synctest.Wait()
			now := len(w.opens())
			for range 3 {
				r.cp.Reconnect()
				<-time.After(time.Minute)
			}
			if n := len(w.opens()); n != now {
				t.Errorf("%d streams more, though all work", n-now)
			}
		})
	})
}

// TestReconnectConnects: Reconnect connects at once to a server that is back, however long gRPC
// would have waited, and ends the pauses that follow when a server closes connections without
// streams.
func TestReconnectConnects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewStateOrigin(t, nil)
		o.Set("", cluster("a", 1))
		r := newRig(t, ControlPlaneConfig{
			Addresses: []string{o.Addr()}, Delta: true, DialOptions: []grpc.DialOption{memory.Option()}, Logger: slog.New(slog.DiscardHandler),
			Backoff: Backoff{Initial: time.Hour, Max: 2 * time.Hour},
		})
		o.Stop()
		c := r.join("k").want(cds, "*")
		<-time.After(10 * time.Minute)
		if err := o.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if n := o.Counts().Streams; n != 0 {
			t.Fatalf("%d streams before the order", n)
		}
		before := time.Now()
		r.cp.Reconnect()
		c.waitState(cds, "a")
		if took := time.Since(before); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	watched(t, connectivity.Idle, func(cp *ControlPlane, w *dialed, _ *bytes.Buffer) {
		for range 10 { // pauses grow to minutes
			w.set(connectivity.Ready)
			synctest.Wait()
			w.set(connectivity.Idle)
			<-time.After(2 * lastPause)
			synctest.Wait()
		}
		w.set(connectivity.Ready)
		synctest.Wait()
		before := w.connects.Load()
		w.set(connectivity.Idle)
		synctest.Wait()
		if w.connects.Load() != before {
			t.Fatal("an attempt before the pause is over")
		}
		cp.Reconnect()
		synctest.Wait()
		if n := w.connects.Load(); n != before+1 {
			t.Errorf("%d attempts to connect after the order, expected 1", n-before)
		}
	})
}
