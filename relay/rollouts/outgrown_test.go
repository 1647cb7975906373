package rollouts

import (
	"slices"
	"testing"
	"time"
)

// TestClientsConnectLater: a rollout that began while nearly all clients were away begins again when they are back,
// so a revision that is bad for them gets to one scout of each software version, and not to all at once.
func TestClientsConnectLater(t *testing.T) {
	for name, test := range map[string]struct {
		bad  bool
		back int // clients that are back before the bake ends
		want []string
	}{
		"good for all":          {false, 9, []string{"started", "step", "passed", "step", "outgrown", "step", "passed", "step", "passed"}},
		"bad for the others":    {true, 9, []string{"started", "step", "passed", "step", "outgrown", "step", "failed"}},
		"one more than doubles": {false, 1, []string{"started", "step", "passed", "step", "outgrown", "step", "passed"}},
		"none":                  {false, 0, []string{"started", "step", "passed", "step", "passed", "promoted", "passed"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *stage) {
				others := slices.Clone(s.fleet.clients[1:])
				for _, c := range s.fleet.clients {
					c.version = "v1"
				}
				s.begins("shop")
				for _, c := range others {
					s.fleet.disconnect(c, false)
				}
				s.sends("shop", "a=2")
				sleep(time.Second)
				is := s.is("shop", "Stepping Bake")
				if test.bad {
					s.fleet.become(rejects, everybody)
				}
				for _, c := range others[:test.back] {
					s.fleet.connect(c)
				}
				sleep(15 * time.Minute)
				if got := s.did("shop"); !slices.Equal(got[:min(len(got), len(test.want))], test.want) {
					t.Errorf("decisions: %q, expected first %q", got, test.want)
				}
				with := s.fleet.with(is.Revision)
				if n := len(with); test.bad && n != 2 {
					t.Errorf("%q got the bad revision, expected the first client and one more", with)
				}
			})
		})
	}
}
