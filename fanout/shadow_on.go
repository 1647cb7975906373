//go:build shadow

package fanout

import (
	"fmt"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// shadow compares the state of a type with a conversation: each event is given to both, and a
// difference panics.
type shadow struct{ c conversation.Conversation }

// event gives an event to the conversation. Positions and names that were changed by no event are
// taken over before; state and marks are its own.
func (s *shadow) event(ts *typeState, f func(*conversation.Conversation)) {
	c := &s.c
	c.Sent, c.Acked, c.Nonce, c.Bytes = ts.sent, ts.acked, ts.nonce, ts.bytes
	c.Force, c.Resend, c.ForceUnacked, c.ResendUnacked = ts.tell, ts.refresh, ts.told, ts.refreshed
	c.HeldRemovals, c.OnDemand = ts.kept, ts.asked
	c.Mark(conversation.FirstAnswerDue, ts.owed)
	f(c)
}

// check compares both after an event.
func (s *shadow) check(ts *typeState) {
	c := &s.c
	var want conversation.State
	switch {
	case ts.inFlight:
		want.Phase = conversation.Awaiting
	case ts.open:
		want.Phase = conversation.Expired
	case ts.nonce > 0:
		want.Phase = conversation.Idle
	}
	want.Verdict, want.More = conversation.Verdict(ts.rejection), ts.more
	got := c.State
	if got.Kind == conversation.Notes {
		got.Kind = conversation.Content
	}
	switch {
	case ts.open && ts.isAside():
		want.Kind = conversation.Errors
	case ts.open && ts.repeatsAll:
		want.Kind = conversation.Repeat
	}
	if got != want {
		panic(fmt.Sprintf("the state is %v, expected %v", got, want))
	}
	same := func(name string, got, want any) {
		if got != want {
			panic(fmt.Sprintf("%v: %s is %v, expected %v", c.State, name, got, want))
		}
	}
	same("Sent", c.Sent, ts.sent)
	same("Acked", c.Acked, ts.acked)
	same("Nonce", c.Nonce, ts.nonce)
	same("Bytes", c.Bytes, ts.bytes)
	same("FirstAnswerDue", c.Has(conversation.FirstAnswerDue), ts.owed)
	same("Switched", c.Has(conversation.Switched), ts.moved)
	same("Resubscribed", c.Has(conversation.Resubscribed), ts.again)
	if c.Has(conversation.Crossed) || c.Phase != conversation.Expired {
		// After an AckTimeout ts.dropped is still set, but nobody reads it without looking at the clock.
		same("Crossed", c.Has(conversation.Crossed), ts.dropped)
	}
	names := func(name string, got, want *cache.Names) {
		if (got == nil) != (want == nil) || got != nil && got.Digest != want.Digest {
			panic(fmt.Sprintf("%v: %s is %v, expected %v", c.State, name, got, want))
		}
	}
	names("Force", c.Force, ts.tell)
	names("Resend", c.Resend, ts.refresh)
	names("ForceUnacked", c.ForceUnacked, ts.told)
	names("ResendUnacked", c.ResendUnacked, ts.refreshed)
	names("OnDemand", c.OnDemand, ts.asked)
	same("the held removals are due", c.HeldRemovals != nil && c.HeldRemovals == c.Force, ts.kept != nil && ts.kept == ts.tell)
}

func (s *shadow) view(st *stream, ts *typeState, h *cache.Head) *conversation.View {
	return &conversation.View{
		Noted: st.noted(*h), Subscribed: h.Names > 0 || h.Wildcard, Wildcard: h.Wildcard, Known: h.Known,
		Unreachable: h.Hopeless, Restoring: h.Held, Whole: !st.delta && ts.table.Type.FullState, ClaimsVersion: ts.claimsVersion(),
	}
}

// may compares whether the client may be sent anything.
func (s *shadow) may(st *stream, ts *typeState, h *cache.Head, want bool) {
	s.event(ts, func(c *conversation.Conversation) {
		if why := c.MayAnswer(s.view(st, ts, h)); (why == conversation.NothingNew) != want {
			panic(fmt.Sprintf("%v: may not answer: %q, expected %v", c.State, why, want))
		}
	})
}

// next compares what is asked of the cache. For Wait, the newest response is not what is waited for.
func (s *shadow) next(st *stream, ts *typeState, h *cache.Head, news, keeps bool, want conversation.Act) {
	s.event(ts, func(c *conversation.Conversation) {
		v := s.view(st, ts, h)
		v.News, v.RemovalsWait = news, keeps
		got := c.Next(v)
		if got.Act != want || got.Why == conversation.AwaitingAck {
			panic(fmt.Sprintf("%v: the decision is %v %q, expected %v", c.State, got.Act, got.Why, want))
		}
	})
}

// judge compares what is decided on an answer.
func (s *shadow) judge(st *stream, ts *typeState, h *cache.Head, q *cache.Query, b *body, want conversation.Act) {
	s.event(ts, func(c *conversation.Conversation) {
		got := c.Judge(s.view(st, ts, h), &conversation.Answer{
			Empty: b.data == nil, More: b.more, NoResources: b.resources == 0, Local: b.local, Silent: st.nonces == 0,
			Withholds: b.withholds, Ordered: q.KeepRemoved,
		})
		if got.Act != want {
			panic(fmt.Sprintf("%v: the judgement is %v %q, expected %v", c.State, got.Act, got.Why, want))
		}
	})
}

func resultOf(b *body) *conversation.Result {
	return &conversation.Result{To: b.to, Newest: b.newest, More: b.more, Withheld: b.withheld, Unrefreshed: b.unrefreshed, Unknown: b.unknown}
}

func mustAgree(c *conversation.Conversation, what string, got, want bool) {
	if got != want {
		panic(fmt.Sprintf("%v: %s is %v, expected %v", c.State, what, got, want))
	}
}
