package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/relay/xdstest"
)

// waitState waits until a type of the only client stands like that, since a time.
func (w *world) waitState(t *testing.T, state State, since time.Time) {
	t.Helper()
	synctest.Wait()
	i := w.info(eds)
	if i.State != state || !i.Since.Equal(since) {
		t.Errorf("%s since %s, expected %s since %s", i.State, i.Since.Format(time.TimeOnly), state, since.Format(time.TimeOnly))
	}
}

// TestResumedWithNothing: B39: a client that returns with the version of an empty set to a node on
// which there has never been anything is synced: there is nothing to send to it.
func TestResumedWithNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.open(false)
		first.Subscribe(cds)
		w.asked(cds, "*")
		w.change(cds, nil)
		nothing := first.Recv(t).Version
		first.Cancel()
		synctest.Wait()
		again := w.open(false)
		again.Resume(cds, nothing, nil)
		again.Quiet(t, short)
		if i := w.info(cds); i.State != Synced {
			t.Errorf("%s with version %s, expected %s", i.State, nothing, Synced)
		}
		again.Cancel()
		synctest.Wait()
		cold := newWorld(t)
		early := cold.open(false)
		early.Resume(cds, nothing, nil)
		early.Quiet(t, short)
		if i := cold.info(cds); i.State != Unknown {
			t.Errorf("%s before the control plane has answered, expected %s", i.State, Unknown)
		}
		plain := newWorld(t)
		plain.open(false).Subscribe(cds)
		plain.asked(cds, "*")
		if i := plain.info(cds); i.State != NotSent {
			t.Errorf("%s without a version before the control plane has answered, expected %s", i.State, NotSent)
		}
	})
}

// TestSince: since when a client stands as it does: since it asked, since there was
// something newer than it has, since it answered. An answer counts also where
// something newer follows at once.
func TestSince(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		later := func() time.Time {
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			return time.Now()
		}
		serve := func(version string, v int) {
			w.serve(version, eds, xdstest.Synthetic(eds, "a", v))
		}
		at := later()
		s.Subscribe(eds, "a")
		w.asked(eds, "a")
		later()
		w.waitState(t, NotSent, at)
		at = later()
		serve("v1", 1)
		f := s.Recv(t)
		later()
		w.waitState(t, Stale, at)
		at = later()
		s.Ack(f)
		synctest.Wait()
		later()
		w.waitState(t, Synced, at)
		at = later()
		serve("v2", 2)
		f = s.Recv(t)
		later()
		serve("v3", 3) // it waits for the answer
		later()
		w.waitState(t, Stale, at)
		at = later()
		s.Ack(f)
		f = s.Recv(t)
		later()
		w.waitState(t, Stale, at)
		at = later()
		s.Nack(f, "no")
		synctest.Wait()
		later()
		w.waitState(t, Nacked, at)
		s.Subscribe(cds) // another type changes nothing
		synctest.Wait()
		later()
		w.waitState(t, Nacked, at)
		at = later()
		serve("v4", 4)
		f = s.Recv(t)
		later()
		w.waitState(t, Stale, at)
		at = later()
		s.Ack(f)
		later()
		w.waitState(t, Synced, at)
	})
}

// TestSinceWhileStuck: since when a client is behind does not move on while nothing can
// be sent to it.
func TestSinceWhileStuck(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.net.Client(t, w.addr, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10)).Open(xdstest.Delta)
		types := []string{cds, eds, lds, rds}
		for _, url := range types {
			s.Subscribe(url, "a")
			w.asked(url, "a")
		}
		w.named(rds, "a", route("a", "1"))
		s.Ack(s.Recv(t))
		s.StopReading()
		for _, url := range types { // the client may still take the first
			w.named(url, "a", noisy("a", 2<<20))
			synctest.Wait()
		}
		at := time.Now()
		for range 3 {
			waiting := 0
			for _, url := range types {
				i := w.info(url)
				if i.Since.After(at) {
					t.Errorf("%s: %s since %s, expected since %s", url, i.State, i.Since.Format(time.TimeOnly), at.Format(time.TimeOnly))
				}
				if i.Head > i.Sent {
					waiting++
				}
			}
			if waiting == 0 {
				t.Errorf("all was sent: %+v", w.srv.Streams())
			}
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
		}
	})
}

// TestUnknown: how a client stands is not known while what it came with cannot be
// compared.
func TestUnknown(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		came := time.Now()
		s.Resume(eds, "old", map[string]string{"a": "old"}, "a")
		w.asked(eds, "a")
		w.waitState(t, Unknown, came)
		w.serve("v1", eds, xdstest.Synthetic(eds, "a", 1))
		s.Ack(s.Recv(t))
		w.waitState(t, Synced, time.Now())
	})
}
