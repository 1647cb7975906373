package rollouts

import (
	"errors"
	"testing"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// TestPause: while a rollout is paused, no further client gets the revision, and a failure takes it back.
func TestPause(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.order(Pause, rollout.ErrNoRollout)
		s.order(Resume, rollout.ErrNotPaused)
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		s.order(Pause, nil)
		sleep(time.Hour)
		if is := s.is("shop", "Stepping Bake Braked"); is.Waits != "paused" {
			t.Errorf("%+v", is)
		}
		s.order(Resume, nil)
		sleep(50 * time.Second)
		s.is("shop", "Stepping Bake")
		sleep(20 * time.Second)
		s.is("shop", "Proving Bake")
		s.order(Pause, nil)
		sleep(time.Hour)
		s.fleet.mu.Lock()
		s.fleet.notifyLocked(s.fleet.clients[0], fanout.CanaryEvent{Exposure: fanout.Rejected, Reason: "late"})
		s.fleet.mu.Unlock()
		sleep(time.Second)
		s.is("shop", "Held")
		s.shows("shop", "1")
	})
}

// TestManual: with the mode manual each step waits for an approval.
func TestManual(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Manual
		s.begins("shop")
		s.order(Approve, rollout.ErrNotWaiting)
		s.sends("shop", "a=2")
		for _, state := range []string{"Scouting Approval", "Stepping Approval", "Stepping Approval"} {
			sleep(time.Hour)
			s.is("shop", state)
			s.order(Approve, nil)
		}
		sleep(time.Hour)
		s.is("shop", "Idle")
		s.shows("shop", "2")
	})
}

// TestAbortAndRetry: an abort returns canaries to the stable revision and refuses the new one until retry.
func TestAbortAndRetry(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.order(Abort, rollout.ErrNoRollout)
		s.order(Retry, rollout.ErrNotHeld)
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.order(Abort, nil)
		is := s.is("shop", "Held")
		if len(s.fleet.shows) > 0 || len(is.Refused) != 1 {
			t.Errorf("canaries still see the revision: %+v", is)
		}
		sleep(time.Hour)
		s.is("shop", "Held")
		s.order(Retry, nil)
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "2")
	})
}

// TestUndo: undo returns all clients to the revision before, up to three times, and refuses what it undid.
func TestUndo(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.order(Undo, rollout.ErrNoFormer)
		for _, content := range []string{"a=2", "a=3"} {
			s.sends("shop", content)
			sleep(10 * time.Minute)
			s.is("shop", "Idle")
		}
		s.order(Undo, nil)
		s.is("shop", "Held")
		s.shows("shop", "2")
		s.order(Undo, nil)
		s.shows("shop", "1")
		s.order(Undo, rollout.ErrNoFormer)
		sleep(time.Hour)
		s.is("shop", "Held")
		s.shows("shop", "1")
		s.sends("shop", "a=4")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "4")
	})
}

// TestPromoteWithoutChecks: the order gives all clients what is pending, also of a key that is held.
func TestPromoteWithoutChecks(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.order(Promote, rollout.ErrNoPending)
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Held")
		s.order(Promote, nil)
		is := s.is("shop", "Idle")
		s.shows("shop", "2")
		if is.Good != is.Stable || len(is.Refused) > 0 {
			t.Errorf("%+v", is)
		}
		s.order(Undo, nil)
		s.shows("shop", "1")
	})
}

// TestFrozen: a frozen key starts no step. An unfreeze lets the rollout start.
func TestFrozen(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.cache.Freeze("shop", cache.Freeze{Reason: "test"})
		s.control.SetFrozen("somebody", "test")
		s.sends("shop", "a=2")
		sleep(time.Hour)
		if is := s.is("shop", "Settling Quiet Braked"); is.Waits != "frozen" {
			t.Errorf("%+v", is)
		}
		s.cache.Unfreeze("shop")
		s.control.SetFrozen("somebody", "test")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "2")
		s.expects("shop", "freeze", "unfreeze", "started", "step", "passed", "step", "passed", "promoted", "passed")
	})
}

// TestFrozenOrderIsOfTheCache: the orders of the cache decide whether a key is frozen. A record that was
// written before the last one does not.
func TestFrozenOrderIsOfTheCache(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.cache.Freeze("shop", cache.Freeze{Reason: "test"})
		s.control.SetFrozen("somebody", "test")
		sleep(time.Second)
		s.restart(func() { s.sends("shop", "a=2") }) // without the order
		sleep(20 * time.Minute)
		s.is("shop", "Idle")
	})
}

// TestFreezeBeforeItIsWritten: a freeze between a decision and its record keeps canaries from the revision.
func TestFreezeBeforeItIsWritten(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.breaks(errors.New("disk full"))
		s.sends("shop", "a=2")
		sleep(10 * time.Second)
		is := s.is("shop", "Scouting Bake")
		if with := s.fleet.with(is.Revision); len(with) > 0 {
			t.Errorf("%q have a revision of which nothing is written", with)
		}
		s.cache.Freeze("shop", cache.Freeze{Reason: "test"})
		s.control.SetFrozen("somebody", "test")
		s.breaks(nil)
		sleep(10 * time.Second)
		if with := s.fleet.with(is.Revision); len(with) > 0 {
			t.Errorf("%q got a revision while the key was frozen", with)
		}
		s.cache.Unfreeze("shop")
		s.control.SetFrozen("somebody", "test")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.shows("shop", "2")
	})
}

// TestPromoteWithoutRecords: the order to promote without checks needs no record: it is for emergencies.
func TestPromoteWithoutRecords(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.breaks(errors.New("disk full"))
		s.sends("shop", "a=2")
		sleep(10 * time.Second)
		s.order(Promote, nil)
		s.shows("shop", "2")
		s.is("shop", "Idle")
	})
}

// TestPlan: the plan names who would be canaries, and changes nothing.
func TestPlan(t *testing.T) {
	bubble(t, func(s *stage) {
		s.policy.Mode = rollout.Manual
		s.begins("shop")
		if p, err := s.control.Plan("shop"); err != nil || p.Revision != "" || len(p.Steps) > 0 {
			t.Errorf("%+v, %v", p, err)
		}
		s.fleet.clients[0].ineligible = true
		s.sends("shop", "a=2")
		sleep(time.Second)
		p, err := s.control.Plan("shop")
		if err != nil || p.Affected != 10 || p.Eligible != 9 || len(p.Steps) != 3 || p.Steps[0].Clients != 2 || p.Steps[1].Clients != 5 || p.Steps[2].Clients != 10 {
			t.Errorf("%+v, %v", p, err)
		}
		s.is("shop", "Scouting Approval")
		if _, err := s.control.Plan("none"); !errors.Is(err, ErrNoPolicy) {
			t.Error(err)
		}
	})
}
