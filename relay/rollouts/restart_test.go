package rollouts

import (
	"slices"
	"testing"
	"time"
)

// TestRestart: a rollout goes on at its step with its canaries; one that was being proven starts again.
func TestRestart(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		before := s.is("shop", "Stepping Bake")
		canaries := s.fleet.with(before.Revision)
		restored := func() {
			s.sends("shop", "a=1")
			s.sends("shop", "a=2")
		}
		s.restart(restored)
		sleep(10 * time.Second)
		after := s.is("shop", "Stepping Bake")
		if after.Revision != before.Revision || after.Canaries != before.Canaries || !slices.Equal(s.fleet.with(before.Revision), canaries) {
			t.Errorf("before %+v, after %+v", before, after)
		}
		sleep(time.Minute)
		s.is("shop", "Proving Bake")
		s.restart(restored)
		sleep(time.Second)
		if is := s.status("shop"); is.Stable != "" || is.Good != "" {
			t.Errorf("a revision that was not proven is stable after a restart: %+v", is)
		}
		sleep(10 * time.Minute)
		if is := s.is("shop", "Idle"); is.Good != before.Revision {
			t.Errorf("%+v", is)
		}
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=3")
		sleep(time.Minute)
		held := s.is("shop", "Held")
		s.restart(func() {
			s.sends("shop", "a=2")
			s.sends("shop", "a=3")
		})
		sleep(time.Minute)
		is := s.is("shop", "Held")
		if !slices.Equal(is.Refused, held.Refused) || len(is.Rejections) == 0 || is.Rejections[0].Client != held.Rejections[0].Client {
			t.Errorf("%+v", is)
		}
		if !slices.ContainsFunc(is.History, func(d Decision) bool { return d.What == "failed" && d.Revision == is.Revision }) {
			t.Errorf("the history lacks the failure before the restart: %+v", is.History)
		}
		s.shows("shop", "2")
	})
}

// TestRestartByParts: after a restart the control plane sends a revision in parts, since clients ask for one type
// after the other. A part is no other revision, and nothing pending does not mean that it was taken back.
func TestRestartByParts(t *testing.T) {
	for _, refused := range []bool{false, true} {
		for _, b := range []string{"b=1", "b=2"} { // a is still what it was
			bubble(t, func(s *stage) {
				s.sends("shop", "a=1", "b=1")
				sleep(5 * time.Second)
				if refused {
					s.fleet.become(rejects, everybody)
				}
				s.sends("shop", "a=2", "b=2")
				sleep(time.Second)
				before := s.status("shop")
				had := s.fleet.with(before.Revision)
				s.restart(func() {
					s.sends("shop", "a=1", "b=1")
					sleep(time.Second)
					s.sends("shop", "a=1", b)
				})
				sleep(3 * time.Second)
				s.sends("shop", "a=2", "b=2")
				sleep(time.Second)
				after := s.status("shop")
				if after.State != before.State || after.Revision != before.Revision || after.Canaries != before.Canaries {
					t.Errorf("%s, refused %t: before %+v, after %+v", b, refused, before, after)
				}
				for _, c := range s.fleet.clients {
					if len(c.got) > 0 && !slices.Contains(had, c.ID) || slices.ContainsFunc(c.got, func(r string) bool { return r != before.Revision }) {
						t.Errorf("%s, refused %t: %s has got %v, before the restart %v had got %s", b, refused, c.ID, c.got, had, before.Revision)
					}
				}
			})
		}
	}
}
