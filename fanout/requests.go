package fanout

import (
	"slices"
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/fanout/journal"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// wildcardName is the name that subscribes to all resources of a type.
const wildcardName = "*"

// applySotWLocked applies a DiscoveryRequest. It returns the request's answer to the newest
// response, and whether the request counts at all.
func (s *stream) applySotWLocked(ts *typeState, r *resource.Request, initial bool) (answer verdict, counts bool, err error) {
	answered := ts.Nonce != 0
	if r.Names.Len() > 0 || r.Located { // B19, for any nonce
		ts.Mode = conversation.Named
	}
	// B7, B10: a request without a nonce answers no response and only states names.
	if answered && len(r.Nonce) > 0 {
		if !ts.quoted(r.Nonce) {
			ts.metrics.stale()
			if !ts.table.Type.FullState { // otherwise the newest response has the whole content
				s.rejectedLateLocked(ts, r)
			}
			return none, false, s.omittedLocked(ts, r) // B8: the names in the newer request, which is on its way, count
		}
		answer = s.judgeLocked(ts, r)
	}
	if initial && len(r.Version) > 0 {
		ts.claims = &claims{version: string(r.Version[:min(len(r.Version), maxVersion)])}
	}
	ed, ok := ts.table.Adopt(&ts.watcher, ts.isLegacyWildcard(), r.Names)
	if !ok {
		wild, names, err := ts.wishes(r)
		if err != nil {
			return none, false, err
		}
		if ed = ts.table.Replace(&ts.watcher, wild, names); ed.Over != nil {
			return none, false, s.tooMuchForKey(ed.Over)
		}
	}
	ts.heard(&ed)
	if !initial && ed.Wildcard && ts.claimsVersion() {
		ts.claims.outdated = true // the version covers names that the client has dropped since
	}
	s.editedLocked(ts, ed, false)
	if answered && len(r.Nonce) == 0 && (ed.Wildcard || len(ed.Added) > 0) {
		// B10: the client may have forgotten the response in flight, and waits for the names that
		// it requests now. If it does answer both responses, its answer to the newer one states its
		// names once more (B17).
		ts.Forgotten()
	}
	return answer, true, nil
}

// isLegacyWildcard reports whether a SotW request without names subscribes to everything (B20,
// B21).
func (ts *typeState) isLegacyWildcard() bool {
	return ts.Mode == conversation.Implicit && ts.table.Type.Wildcard
}

// wishes returns the subscription that a SotW request states.
func (ts *typeState) wishes(r *resource.Request) (wild bool, names []string, err error) {
	names, err = r.Names.Without(wildcardName)
	return ts.isLegacyWildcard() || r.Names.Has(wildcardName), resource.WithoutGlobs(names), err // D8
}

// applyDeltaLocked applies a DeltaDiscoveryRequest. It returns the request's answer to the newest
// response.
func (s *stream) applyDeltaLocked(ts *typeState, r *resource.Request, initial bool) (answer verdict, err error) {
	if ts.quoted(r.Nonce) {
		answer = s.judgeLocked(ts, r)
	} else if len(r.Nonce) > 0 {
		ts.metrics.stale() // B11: the lists count in any case
		s.rejectedLateLocked(ts, r)
	}
	if initial {
		return answer, s.startDeltaLocked(ts, r)
	}
	now := time.Now()
	if r.Subscribe.Len()+r.Unsubscribe.Len() == 0 { // true of most requests
		ts.askedAgain(nil, answer, now)
		return answer, nil
	}
	e, err := editOf(r)
	if err != nil {
		return none, err
	}
	e.Unbounded = s.tier != nil
	ed := ts.table.Edit(&ts.watcher, e)
	if ed.Over != nil {
		return none, s.tooMuchForKey(ed.Over)
	}
	ts.disclaim(ed.Removed, e.RemoveWildcard)
	// B35, except for a client that states its wildcard with every answer.
	s.editedLocked(ts, ed, e.AddWildcard && !e.RemoveWildcard && answer == none)
	names := cache.KeysOf(e.Add).Without(resource.CanonicalNames(e.Remove)).Without(ed.Added)
	ts.askedAgain(names, answer, now)
	if ts.onDemand() {
		ts.OnDemand = ts.OnDemand.With(cache.NewNames(slices.Clone(ed.Added)))
		if answer == none {
			ts.OnDemand = ts.OnDemand.With(names)
		}
	}
	switch h := ts.table.State(&ts.watcher); {
	case h.HasWildcard():
		ts.Force = ts.Force.With(cache.NewNames(ed.Removed)) // B36
	case h.Globs > 0:
		// The same for a removed name that a glob still covers: no client can conclude that its
		// resource is gone.
		ts.Resend = ts.Resend.With(cache.NewNames(ed.Removed))
	}
	return answer, nil
}

// startDeltaLocked applies the first request for a type: the subscription, and the resources that
// the client already holds (B37).
func (s *stream) startDeltaLocked(ts *typeState, r *resource.Request) error {
	if r.Held.Len() > 0 || s.tier != nil && r.Settled { // to hold no resource is a state, too
		ts.claims = &claims{held: []resource.Held{}} // until claimLocked
		if s.back == nil {
			s.comesBackLocked()
		}
	}
	if u := ts.table.Type.URL; u == resource.EndpointURL || u == resource.EndpointV2URL {
		if ts.claims != nil { // otherwise all of them are sent in any case
			ts.Resend = s.warming
		}
		s.warming = nil
	}
	// B23: a first message cannot unsubscribe, as nothing is subscribed yet.
	wild := r.Subscribe.Len() == 0 && !r.Located && ts.table.Type.Wildcard
	if r.Unsubscribe.Len() == 0 {
		if ed, ok := ts.table.Adopt(&ts.watcher, wild, r.Subscribe); ok {
			s.editedLocked(ts, ed, false)
			s.claimLocked(ts, r.Held)
			return nil
		}
	}
	e, err := editOf(r)
	if err != nil {
		return err
	}
	e.AddWildcard, e.Unbounded = e.AddWildcard || wild, s.tier != nil
	ed := ts.table.Edit(&ts.watcher, e)
	if ed.Over != nil {
		return s.tooMuchForKey(ed.Over)
	}
	s.editedLocked(ts, ed, false)
	s.claimLocked(ts, r.Held)
	return nil
}

// editOf returns the change that a delta request makes to the subscription.
func editOf(r *resource.Request) (e cache.Edit, err error) {
	if e.Add, err = r.Subscribe.Without(wildcardName); err != nil {
		return e, err
	}
	if e.Remove, err = r.Unsubscribe.Without(wildcardName); err != nil {
		return e, err
	}
	e.AddWildcard, e.RemoveWildcard = r.Subscribe.Has(wildcardName), r.Unsubscribe.Has(wildcardName)
	return e, nil
}

// verdict is the answer that a request gives to the newest response.
type verdict int

const (
	none     verdict = iota // no answer, or the same answer again
	accepted                // ACK
	rejected                // NACK
)

// judgeLocked interprets a request that quotes the newest nonce as an ACK or NACK. A second such
// request only states a subscription.
func (s *stream) judgeLocked(ts *typeState, r *resource.Request) verdict {
	s.inSyncLocked()
	if !ts.Unanswered() {
		return none
	}
	now := time.Now()
	if r.Rejected { // B13
		again := ts.nack != nil
		s.unacked -= ts.rejected(s.why, now)
		s.rejectedEventLocked(ts, now, false)
		s.answeredLocked(ts, Rejected, now)
		ts.metrics.nack()
		ctx := s.refusedLocked(ts, ts.Acked.Gen, ts.Sent.Gen, ts.nack.Message, now)
		if !again {
			s.srv.nackedLocked(ctx, s, ts)
		}
		return rejected
	}
	took, before := ts.sentAt.before(s.srv.stamp(now)), ts.Acked.Gen
	s.unacked -= ts.accepted()
	s.journal.Answer(now, ts.table.Type, journal.Accepted)
	if ts.Acked == ts.Sent && !ts.IsRejected() {
		s.answeredLocked(ts, Accepted, now)
	}
	ts.metrics.ack(s.acceptedLocked(ts, before, ts.Acked.Gen, now), took)
	return accepted
}
