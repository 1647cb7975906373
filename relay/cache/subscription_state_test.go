package cache

import (
	"testing"

	"xdsrelay/relay/resource"
)

// TestAnswerState: a subscription is answered once the control plane has answered for all that it asks
// for, while the answer to the wildcard may be there before the one to a name.
func TestAnswerState(t *testing.T) {
	for name, tc := range map[string]struct {
		wildcard bool
		names    []string
		answers  []Update
		want     AnswerState
		wild     WildcardState
	}{
		"nothing":                {want: Answered},
		"a name":                 {names: []string{"a"}},
		"a name, answered":       {names: []string{"a"}, answers: []Update{{Type: clusters, Resources: []*resource.Resource{res("a", "1")}, Kind: Partial}}, want: Answered},
		"the wildcard":           {wildcard: true, wild: WildcardAwaited},
		"the wildcard, answered": {wildcard: true, answers: []Update{{Type: clusters, Full: true}}, want: Answered, wild: WildcardKnown},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			c := w.client(clusters, tc.wildcard, tc.names...)
			w.feed.TakeDemand(true, true)
			for _, u := range tc.answers {
				w.feed.Apply(u)
			}
			if h := c.head(); h.Answer != tc.want || h.Wildcard != tc.wild || h.IsEmpty() != (!tc.wildcard && len(tc.names) == 0) {
				t.Errorf("answer %d, wildcard %d, empty %t", h.Answer, h.Wildcard, h.IsEmpty())
			}
		})
	}
}
