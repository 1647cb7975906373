package upstream

import (
	"fmt"
	"slices"
	"time"

	"xdsrelay/upstream/conversation"
)

func variantOf(delta bool) conversation.Variant {
	if delta {
		return conversation.Delta
	}
	return conversation.SotW
}

// compareAsk panics where the requests for a demand differ from the decision of the shadow.
func (a *asked) compareAsk(next conversation.Decision, delta bool) {
	var want []string
	one := func(c conversation.Change) {
		if delta {
			want = append(want, fmt.Sprintf("%q-%q", c.Subscribe, c.Unsubscribe))
		} else {
			want = append(want, fmt.Sprintf("%q", c.Names))
		}
	}
	switch next.Act {
	case conversation.DropAndSend:
		one(next.Drop)
		if len(next.Twice) > 0 {
			one(conversation.Change{Unsubscribe: next.Twice})
		}
		one(next.Change)
	case conversation.Send:
		one(next.Change)
	}
	if !slices.Equal(a.trace, want) || (next.Act == conversation.OpenNewStream) != a.renewed {
		panic(fmt.Sprintf("the shadow decides %v: %q, renewed %v, and sent was %q", next.Act, want, a.renewed, a.trace))
	}
	a.compare("a demand")
}

// compare panics where the shadow of a differs from its fields.
func (a *asked) compare(after string) {
	s := a.shadow
	if s.Scope != conversation.New && (s.HasWildcard() != a.wild || !slices.Equal(s.Names, a.names) || s.Variant == conversation.Delta && a.legacy != (s.Scope == conversation.Implicit)) ||
		s.Scope == conversation.Names && a.hasUnsubscribed || s.Nonce != a.nonce || s.OwesReply() != (a.delayed != nil) || (s.Frames == conversation.Partial) != !a.completeAt.IsZero() {
		panic(fmt.Sprintf("after %s: the shadow is %v %q, and the fields say %+v", after, s.State, s.Names, a))
	}
}

func (a *asked) compareDelay(got, want time.Duration) {
	if got != want {
		panic(fmt.Sprintf("the shadow delays a reply by %v instead of %v", got, want))
	}
	a.compare("a response")
}
