package rollouts

import (
	"testing"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/rollout"
)

// TestCountsOfSlowCanaries: a canary that is about to be sent the revision has not answered, on whichever node it
// is; one that would see nothing of it has. A client with several streams has only if that holds for all of them.
func TestCountsOfSlowCanaries(t *testing.T) {
	affected := func(is bool) func() map[rollout.Hash]bool {
		return func() map[rollout.Hash]bool { return map[rollout.Hash]bool{1: is} }
	}
	none, accepted := []standing{{Hash: 1}}, []standing{{Hash: 1, Exposure: fanout.Accepted}}
	for name, c := range map[string]struct {
		here, elsewhere []standing
		answered        int
	}{
		"here, affected":            {marked(none, affected(true)), nil, 0},
		"here, unaffected":          {marked(none, affected(false)), nil, 1},
		"elsewhere, affected":       {nil, marked(none, affected(true)), 0},
		"elsewhere, unaffected":     {nil, marked(none, affected(false)), 1},
		"one of two streams":        {marked(none, affected(false)), marked(none, affected(true)), 0},
		"the other of two streams":  {marked(none, affected(true)), marked(none, affected(false)), 0},
		"both streams, unaffected":  {marked(none, affected(false)), marked(none, affected(false)), 1},
		"accepted, and not on both": {marked(none, affected(false)), accepted, 1},
	} {
		arms := newArms(nil, 1, nil)
		is := arms.counts(append(c.here, c.elsewhere...), time.Minute).Canary
		if is.Present != 1 || is.Answered != c.answered {
			t.Errorf("%s: %d of %d canaries have answered, expected %d of 1", name, is.Answered, is.Present, c.answered)
		}
	}
}

func marked(all []standing, affected func() map[rollout.Hash]bool) []standing {
	all = append([]standing{}, all...)
	setUnaffected(all, affected)
	return all
}
