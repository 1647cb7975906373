package fanout

import (
	"testing"
	"testing/synctest"
)

// TestSurvey: the metrics of client states count like the status: types that a client subscribes
// to, and not those that it has unsubscribed from.
func TestSurvey(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		s.Subscribe(cds)
		synctest.Wait()
		count := func() (all int64) {
			v := survey{srv: w.srv}
			v.lookLocked()
			for _, n := range v.states {
				all += n
			}
			return all
		}
		if n := count(); n != 2 {
			t.Errorf("%d types are counted, expected 2", n)
		}
		s.Unsubscribe(eds, "a", "b")
		synctest.Wait()
		if n := count(); n != 1 {
			t.Errorf("%d types are counted, expected 1: %+v", n, w.srv.Streams())
		}
	})
}
