package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// comparisons bounds how often an answer is computed, while the content that claims are compared with
// changes in between.
const comparisons = 3

// pendingLocked returns the response that is due for a type now. The body is nil if no response is
// due; ts.Wait then has the reason. It moves the client's position past changes that do not concern
// the client. Content that arrives after the comparison with the client's claims is compared, too (B37):
// otherwise the answer would have resources that the client has.
func (s *stream) pendingLocked(ts *typeState, now time.Time) (q cache.Query, b *body) {
	for range comparisons {
		if q, b = s.nextAnswerLocked(ts, now); b == nil || b.kind != ofContent || !ts.hasClaims() || ts.table.State(&ts.watcher).Gen == ts.seen {
			break
		}
	}
	return q, b
}

// nextAnswerLocked is pendingLocked by the state of the subscription that it reads first.
func (s *stream) nextAnswerLocked(ts *typeState, now time.Time) (q cache.Query, b *body) {
	if b := s.refusalLocked(ts, now); b != nil {
		return q, b
	}
	var h cache.SubscriptionState
	if !s.readyLocked(ts, &h, now) {
		return q, nil
	}
	s.repeatLocked(ts, now)
	s.oweLocked(ts)
	v := s.viewOf(ts, &h)
	if v.Due = ts.Due(h.Gen); v.Due == conversation.NothingDue {
		ts.NoNews()
	}
	switch {
	case ts.NeedsOrder(&v): // the client lacks content that it should have
		if q.KeepRemoved = s.keepsLocked(ts, now); !q.KeepRemoved {
			v.Due = conversation.RemovalsDue
		}
	case ts.MayPace(&v) && s.isPacedLocked(ts, &h, now):
		v.Due = conversation.ChangesPaced
	}
	next := ts.Next(&v)
	if next.Why == conversation.AwaitingAck && !s.waitsLocked(ts, now) {
		next = ts.Next(&v)
	}
	if ts.Wait = next.Why; next.Act == conversation.Wait {
		if next.Why == conversation.Paced {
			s.agreeLocked(ts)
		}
		return q, nil
	}
	q = s.askLocked(ts, ts.news(s.form), &h, now)
	if !s.relay {
		q.Basis = h.Basis(q.Since, s.srv.timeOf(s.since))
	}
	q.OmitAssumed = ts.claimsAssumed()
	if ts.hasClaims() {
		q.Keep = ts.table.Kept(ts.claims.held)
	}
	switch next.Act {
	case conversation.AskNotes:
		return s.notesLocked(ts, &h, now)
	case conversation.AskQuietly:
		quiet := q
		quiet.Scope = q.Scope.Quiet()
		if b := s.bodyLocked(ts, &h, &quiet); b.data == nil && b.err == nil {
			s.skipLocked(ts, quiet, b) // B14: no change is visible to the client
			if b.answer.Rest == conversation.PartsLeft {
				return s.pendingLocked(ts, now) // in the part so far
			}
			return s.notesLocked(ts, &h, now)
		}
		q = ts.Unaccepted(q)
	}
	b = s.orderedLocked(ts, &h, &q, now)
	return s.dueLocked(ts, &h, &q, b, now)
}

// viewOf returns the subscription's view of its table, in the form that a conversation needs.
func (s *stream) viewOf(ts *typeState, h *cache.SubscriptionState) conversation.View {
	return conversation.View{
		Noted: s.noted(h), Interest: conversation.InterestOf(h, ts.claimsVersion()), Knowledge: conversation.KnowledgeOf(h),
		Scope: ts.scope(s.form), Responses: s.nonces,
	}
}

// readyLocked sets h to the newest state of the subscription to a type. It returns false while no
// response of any content may be sent.
func (s *stream) readyLocked(ts *typeState, h *cache.SubscriptionState, now time.Time) bool {
	*h = ts.table.State(&ts.watcher)
	if h.Private && !ts.table.Sole() && s.tier == nil { // K17
		if s.waitsLocked(ts, now) {
			ts.Wait = conversation.AwaitingAck
			return false
		}
		s.moveLocked(ts)
		*h = ts.table.State(&ts.watcher)
	}
	ts.seen = h.Gen
	if s.tier != nil {
		if h.Answer == cache.Answered && ts.table.Assumes(&ts.watcher) {
			h.Answer = cache.Awaited // a missing answer is no answer to pass on
		}
		if s.outdatedLocked(ts, now) {
			ts.Wait = conversation.Restoring
			return false
		}
	}
	ts.Mark(conversation.Unreachable, h.Answer == cache.OutOfReach && !h.IsEmpty())
	if ts.Wait = s.mayAnswerLocked(ts, h); ts.Wait != conversation.NothingNew {
		return false
	}
	ts.Wait = s.compareLocked(ts, h, now)
	return ts.Wait == conversation.NothingNew
}

// orderedLocked returns the answer to q without the removals that must wait for other types (E2,
// E5, E8), and completes the query for that answer.
func (s *stream) orderedLocked(ts *typeState, h *cache.SubscriptionState, q *cache.Query, now time.Time) *body {
	b := s.bodyLocked(ts, h, q)
	// The look at the table comes before the question which removals must wait: a route may have
	// changed before the removal that we just saw. If nothing is withdrawn, clients whose removals
	// must wait and clients whose removals need not wait share the answer.
	if b.answer.Removals == cache.SomeRemovals && ts.MayKeepRemovals(q.Since, ts.supplies()) && s.keepsLocked(ts, now) {
		q.KeepRemoved = true
		b = s.bodyLocked(ts, h, q)
	}
	return b
}

// dueLocked returns b, the answer to q, if it must be sent. If not, the client counts as having it.
func (s *stream) dueLocked(ts *typeState, h *cache.SubscriptionState, q *cache.Query, b *body, now time.Time) (cache.Query, *body) {
	switch {
	case b.err != nil:
		s.call.End(b.err)
		return *q, nil
	case s.claimHoldsLocked(ts, h, b):
		ts.Prove(b.to)
		return *q, nil
	}
	v := s.viewOf(ts, h)
	next := ts.Judge(&v, q, &b.answer)
	ts.Wait = next.Why
	switch next.Act {
	case conversation.Send:
		return *q, b
	case conversation.SendEmpty:
		empty := *b
		empty.data = s.srv.encode(ts.table.Type, s.form, &cache.Changes{Version: b.sentVersion, Source: b.source})
		return *q, &empty
	case conversation.SkipAndAsk: // a part with removals only, for which SotW has no form
		if ts.IsHeld() { // the client cannot reject it either: the content that is sent again begins after it
			ts.Acked, ts.ForceUnacked, ts.ResendUnacked = b.to, nil, nil
		}
		s.skipLocked(ts, *q, b)
		return s.pendingLocked(ts, now)
	case conversation.Skip:
		s.skipLocked(ts, *q, b)
	}
	return *q, nil
}

// waitsLocked reports whether the client must answer the newest response first (B9).
func (s *stream) waitsLocked(ts *typeState, now time.Time) bool {
	if ts.Phase == conversation.Awaiting && !s.isDueLocked(ts, now) {
		ts.AckTimeout() // B12: silence is neither ACK nor NACK
	}
	return ts.Phase == conversation.Awaiting
}

// isDueLocked reports whether the client can still answer the newest response in time.
func (s *stream) isDueLocked(ts *typeState, now time.Time) bool {
	wait := s.srv.cfg.AckTimeout - ts.sentAt.before(s.srv.stamp(now))
	if wait > 0 {
		s.armLocked(now.Add(wait))
	}
	return wait > 0
}

// demandedLocked returns a response with the names that the client requested on demand, while the
// rest of the type must wait: the client delays requests until that response arrives (E7). The body
// is nil if there is no such response.
func (s *stream) demandedLocked(ts *typeState) (q cache.Query, b *body) {
	if !ts.MayGoAhead() {
		return q, nil
	}
	h := ts.table.State(&ts.watcher)
	q = s.askLocked(ts, ts.Demanded(), &h, time.Now())
	b = s.bodyLocked(ts, &h, &q)
	if b.data == nil {
		return q, nil
	}
	return q, b
}

// mayAnswerLocked returns the reason why no response of a type may be sent to the client.
func (s *stream) mayAnswerLocked(ts *typeState, h *cache.SubscriptionState) conversation.Reason {
	v := s.viewOf(ts, h)
	return ts.MayAnswer(&v)
}

// anyBehindLocked reports whether a type of the kind has changes that may be sent to the client and
// were not sent.
func (s *stream) anyBehindLocked(kind func(*typeState) bool) bool {
	for _, ts := range s.types {
		if !kind(ts) || ts.isUncompared() || ts.waitsForHead() {
			continue
		}
		if h := ts.table.State(&ts.watcher); (h.Gen > ts.Sent.Gen || ts.More || ts.asksFor()) && s.mayAnswerLocked(ts, &h) == conversation.NothingNew {
			return true
		}
	}
	return false
}

// asksFor reports whether names are waiting to be sent because the client newly subscribed to them
// or must get them again. Their generation does not matter: newer routes may lead to them.
func (ts *typeState) asksFor() bool {
	return ts.Force != nil && ts.Force != ts.HeldRemovals || ts.Resend != nil
}
