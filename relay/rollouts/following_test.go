package rollouts

import (
	"testing"
	"time"

	"xdsrelay/relay/rollout"
)

// TestReportOfAnotherRevision: a node that could not read the newest revision says nothing of what its clients have
// done with the one before, which is about to be taken back from them.
func TestReportOfAnotherRevision(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		k := s.control.keyNamed("shop")
		arms := newArms(hashFor("salt", "shop"), 1, nil)
		arms.step(1, rollout.Roster{}, rollout.Roster{}, rollout.Roster{})
		arms.rejectedBy["identity a"] = true
		k.follows = &following{m: Shown{As: AsCandidate, Revision: "r-2", Round: 1}, revision: "r-2", arms: arms, round: 1}
		if is := k.report(time.Now()); is.Round != 1 || len(is.Tally.RejectedBy) != 1 {
			t.Errorf("of the newest revision: %+v", is)
		}
		k.follows.m.Revision = "r-3"
		if is := k.report(time.Now()); is.Round != 0 || is.Has != "r-2" || len(is.Tally.RejectedBy) != 0 || is.Standings != nil {
			t.Errorf("of the one before: %+v", is)
		}
	})
}
