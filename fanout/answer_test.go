package fanout

import (
	"testing"
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestAnswerOf holds each cell of what a body has of an answer of the cache.
func TestAnswerOf(t *testing.T) {
	rs, names, errs := []*resource.Resource{{}}, []string{"a"}, [][]byte{{1}}
	for i, tc := range []struct {
		c    cache.Changes
		want conversation.Extent
	}{
		{cache.Changes{}, conversation.Nothing},
		{cache.Changes{Resources: rs}, conversation.Resources},
		{cache.Changes{Resources: rs, Removed: names, Errors: errs, Locals: 1}, conversation.Resources},
		{cache.Changes{Removed: names}, conversation.NoResources},
		{cache.Changes{Heartbeats: rs}, conversation.NoResources},
		{cache.Changes{RemovedNames: errs}, conversation.NoResources},
		{cache.Changes{Extra: errs[0]}, conversation.NoResources},
		{cache.Changes{Errors: errs}, conversation.NoResources},
		{cache.Changes{Errors: append(errs, errs...), Locals: 1}, conversation.NoResources},
		{cache.Changes{Errors: errs, Locals: 1, Removed: names}, conversation.NoResources},
		{cache.Changes{Errors: errs, Locals: 1}, conversation.OnlyUnreachable},
	} {
		if got := answerOf(&tc.c).Extent; got != tc.want {
			t.Errorf("extent %d: %d, expected %d", i, got, tc.want)
		}
	}
	for i, want := range [...]conversation.Rest{conversation.UnknownLeft, conversation.NothingLeft, conversation.PartsLeft, conversation.PartsLeft} {
		if got := answerOf(&cache.Changes{Known: i&1 != 0, More: i&2 != 0}).Rest; got != want {
			t.Errorf("rest %d: %d, expected %d", i, got, want)
		}
	}
	for i, want := range [...]Exposure{NotExposed, Exposed} {
		if got := exposureTo(&cache.Changes{Replaced: i == 1}); got != want {
			t.Errorf("replaced %t: %d, expected %d", i == 1, got, want)
		}
	}
}

// TestProofOf holds B39: only a version that was computed from the content proves anything, and nothing of
// TTLs and errors.
func TestProofOf(t *testing.T) {
	for i := range 8 {
		c, want := cache.Changes{Version: "v", Derived: i&1 != 0}, ""
		if i&2 != 0 {
			c.Lifetimes = map[*resource.Resource]time.Duration{nil: 1}
		}
		if i&4 != 0 {
			c.Errors = [][]byte{{1}}
		}
		if i == 1 {
			want = "v"
		}
		if got := proofOf(&c); got != want {
			t.Errorf("derived %t, %d TTLs, %d errors: %q, expected %q", c.Derived, len(c.Lifetimes), len(c.Errors), got, want)
		}
	}
}
