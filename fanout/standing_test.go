package fanout

import (
	"testing"
	"testing/synctest"
	"time"

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
