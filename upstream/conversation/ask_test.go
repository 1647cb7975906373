package conversation

import (
	"testing"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestWildcardJoinedAgain: clients leave the wildcard and join it again before the control plane is asked
// for either. It need not answer a second subscription (B35), so a new stream asks for the content, in both
// variants.
func TestWildcardJoinedAgain(t *testing.T) {
	for _, v := range []Variant{SotW, Delta} {
		for _, implicit := range []bool{true, false} {
			c := Conversation{Variant: v, Type: resource.TypeOf(resource.ClusterURL)}
			ask := func(whole bool) Act {
				d := cache.Demand{Wildcard: true, WildcardChanged: true}
				if v == Delta {
					return c.AskDelta(&d, implicit, whole).Act
				}
				return c.AskSotW(&d, nil, implicit, whole).Act
			}
			if first, again := ask(true), ask(false); first != Send || again != OpenNewStream {
				t.Errorf("%v, implicit: %t: %v, and then %v", v, implicit, first, again)
			}
		}
	}
}
