package rollouts

import (
	"slices"
	"testing"
	"time"
)

// TestScoutsSeeAllTypes: the scout of a version is a client that sees all types with changes, on whatever
// streams, if there is one.
func TestScoutsSeeAllTypes(t *testing.T) {
	bubble(t, func(s *stage) {
		for _, c := range s.fleet.clients {
			c.types = []string{"clusters"}
			if c.ID == "client-4" || c.ID == "client-7" {
				c.types = []string{"clusters", "listeners"}
			}
		}
		s.begins("shop")
		s.fleet.become(rejects, everybody)
		s.sends("shop", "a=2")
		sleep(time.Second)
		is := s.is("shop", "Held")
		with := s.fleet.with(is.Revision)
		slices.Sort(with)
		if !slices.Equal(with, []string{"client-4", "client-7"}) {
			t.Errorf("%q were scouts", with)
		}
	})
}
