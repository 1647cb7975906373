package conversation

import (
	"testing"

	"xdsrelay/relay/cache"
)

// TestInterestOf holds each cell: with names, with the wildcard, with a version.
func TestInterestOf(t *testing.T) {
	for i, want := range [...]Interest{NoInterest, NoInterest, ByName, ByNameWithVersion, Wildcard, Wildcard, Wildcard, Wildcard} {
		h := cache.SubscriptionState{Names: i >> 1 & 1}
		if i&4 != 0 {
			h.Wildcard = cache.WildcardAwaited
		}
		if got := InterestOf(&h, i&1 != 0); got != want {
			t.Errorf("names %d, wildcard %t, version %t: %d, expected %d", h.Names, h.HasWildcard(), i&1 != 0, got, want)
		}
	}
}

// TestKnowledgeOf holds each cell, and the reason to wait for each.
func TestKnowledgeOf(t *testing.T) {
	for _, tc := range []struct {
		answer cache.AnswerState
		held   bool
		want   Knowledge
		lack   Reason
	}{
		{cache.Awaited, false, Incomplete, Unknown},
		{cache.OutOfReach, false, OutOfReach, OriginUnreachable},
		{cache.Answered, false, Complete, NothingNew},
		{cache.Awaited, true, Unconfirmed, Restoring},
		{cache.OutOfReach, true, Unconfirmed, Restoring},
		{cache.Answered, true, Unconfirmed, Restoring},
	} {
		h := cache.SubscriptionState{Answer: tc.answer, Held: tc.held}
		if got := KnowledgeOf(&h); got != tc.want || got.lack() != tc.lack {
			t.Errorf("%d, held %t: %d waits for %v, expected %d for %v", tc.answer, tc.held, got, got.lack(), tc.want, tc.lack)
		}
	}
}

// TestEachDecision holds Next, MayAnswer and Judge in each cell against the rules as facts that are true
// or false by themselves.
func TestEachDecision(t *testing.T) {
	cells := 0
	each(t, func(d *draw) {
		cells++
		c, v := at(State{Phase: Phase(d.of(phases)), Verdict: Verdict(d.of(verdicts))}, Mark(d.of(2))*FirstAnswerDue|Mark(d.of(2))*Awaited), View{
			Due: Due(d.of(4)), Noted: 5 + uint64(d.of(2)), Knowledge: Knowledge(d.of(4)), Interest: ByName,
		}
		c.Sent.Removed -= uint64(d.of(2))
		if got, want := c.Next(&v), nextByFacts(c, &v); got != want {
			t.Errorf("%v, marks %d, lags %t, %+v: %+v, expected %+v", c.State, c.marks, c.Lags(), v, got, want)
		}
	})
	each(t, func(d *draw) {
		cells++
		c, v := at(State{}, Mark(d.of(2))*Switched), View{Interest: Interest(d.of(4)), Knowledge: Knowledge(d.of(4)), Scope: cache.Scope(d.of(2)) * cache.FullState}
		c.Nonce = uint64(d.of(2))
		if got, want := c.MayAnswer(&v), mayAnswerByFacts(c, &v); got != want {
			t.Errorf("nonce %d, marks %d, %+v: %v, expected %v", c.Nonce, c.marks, v, got, want)
		}
	})
	each(t, func(d *draw) {
		cells++
		c, v := at(State{}, Mark(d.of(2))*FirstAnswerDue), View{Responses: uint64(d.of(2)), Knowledge: Knowledge(d.of(4)), Scope: cache.Scope(d.of(2)) * cache.FullState}
		c.Nonce = uint64(d.of(2))
		q := cache.Query{KeepRemoved: d.of(2) == 1}
		a := Answer{Extent: Extent(d.of(4)), Rest: Rest(d.of(3)), Removals: cache.Removals(d.of(3))}
		if got, want := c.Judge(&v, &q, &a), judgeByFacts(c, &v, &q, &a); got != want {
			t.Errorf("nonce %d, marks %d, %+v, removals wait %t, %+v: %+v, expected %+v", c.Nonce, c.marks, v, q.KeepRemoved, a, got, want)
		}
	})
	if cells != 4*3*2*2*4*2*4*2+2*4*4*2*2+2*2*4*2*2*2*4*3*3 {
		t.Errorf("%d cells", cells)
	}
}

// unknownByFacts is the reason to wait for an answer of the control plane.
func unknownByFacts(v *View) Reason {
	switch v.Knowledge {
	case OutOfReach:
		return OriginUnreachable
	case Unconfirmed:
		return Restoring
	}
	return Unknown
}

func nextByFacts(c *Conversation, v *View) Decision {
	changes, paced := v.Due == ChangesDue || v.Due == ChangesPaced, v.Due == ChangesPaced
	held, lags, first := c.Verdict == Held, c.Sent.Removed < c.Sent.Gen, c.Has(FirstAnswerDue)
	news := changes || held && lags && v.Due == RemovalsDue
	notes := v.Noted > c.Sent.Noted
	quiet := changes && v.Knowledge == Complete && !notes && c.Phase != Awaiting && c.Phase != Expired && c.Verdict == Clean && !lags && !first && !c.Has(Awaited)
	if !news && !notes {
		if held {
			return Decision{Why: HeldAfterNack}
		}
		if !lags && !first {
			if v.Knowledge == Complete {
				return Decision{}
			}
			return Decision{Why: unknownByFacts(v)}
		}
	}
	if c.Phase == Awaiting {
		return Decision{Why: AwaitingAck}
	}
	if paced && quiet {
		return Decision{Why: Paced}
	}
	if held && news {
		return Decision{AskQuietly, HeldAfterNack}
	}
	if held {
		return Decision{AskNotes, HeldAfterNack}
	}
	return Decision{Act: Ask}
}

func mayAnswerByFacts(c *Conversation, v *View) Reason {
	named, wildcard := v.Interest == ByNameWithVersion, v.Interest == Wildcard
	if v.Interest == NoInterest {
		return NotSubscribed
	}
	if v.Knowledge == Unconfirmed {
		return Restoring
	}
	first := c.Nonce == 0 && (wildcard || named)
	if whole := v.Scope == cache.FullState; whole && v.Knowledge != Complete && (first || c.Has(Switched)) {
		return unknownByFacts(v)
	}
	return NothingNew
}

func judgeByFacts(c *Conversation, v *View, q *cache.Query, a *Answer) Decision {
	empty, resources, more := a.Extent == Nothing, a.Extent == Resources, a.Rest == PartsLeft
	complete := v.Knowledge == Complete
	if a.Extent == OnlyUnreachable && v.Responses == 0 {
		return Decision{Why: OriginUnreachable}
	}
	if v.Scope == cache.FullState && c.Nonce == 0 && !complete && !resources {
		return Decision{Why: unknownByFacts(v)}
	}
	if !empty {
		return Decision{Act: Send}
	}
	if more {
		return Decision{Act: SkipAndAsk}
	}
	if c.Has(FirstAnswerDue) && complete && a.Removals != cache.KeptFromNode {
		return Decision{Act: SendEmpty}
	}
	if q.KeepRemoved {
		return Decision{Skip, Ordered}
	}
	if complete {
		return Decision{Act: Skip}
	}
	return Decision{Skip, unknownByFacts(v)}
}

// draw is a combination of values, as digits of several bases.
type draw struct{ digits, bases []int }

// of returns a value below n: over all calls of each, every combination once.
func (d *draw) of(n int) int {
	i := len(d.bases)
	d.bases = append(d.bases, n)
	if i == len(d.digits) {
		d.digits = append(d.digits, 0)
	}
	return d.digits[i]
}

// each calls f for each combination of the values that it draws.
func each(t *testing.T, f func(*draw)) {
	t.Helper()
	for d := (&draw{}); !t.Failed(); d.bases = d.bases[:0] {
		f(d)
		i := len(d.bases) - 1
		for ; i >= 0 && d.digits[i] == d.bases[i]-1; i-- {
			d.digits[i] = 0
		}
		if i < 0 {
			return
		}
		d.digits[i]++
	}
}
