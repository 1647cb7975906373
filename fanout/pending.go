package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
)

// pendingLocked returns the response that is due for a type now, or a nil body
// if there is none. It moves the client's position past changes that are no
// news to it.
func (s *stream) pendingLocked(ts *typeState, now time.Time) (q cache.Query, b *body) {
	if b := s.refusalLocked(ts, now); b != nil {
		return q, b
	}
	h, ok := s.readyLocked(ts, now)
	if !ok {
		return q, nil
	}
	s.repeatLocked(ts, now)
	s.oweLocked(ts)
	ts.hopeless = h.Hopeless && (h.Names > 0 || h.Wildcard)
	news := ts.hasNews(h)
	fresh := news
	ts.shadow.event(ts, func(c *conversation.Conversation) { mustAgree(c, "news", c.HasNews(h.Gen), news) })
	if !news {
		ts.shadow.event(ts, func(c *conversation.Conversation) { c.NoNews() })
		ts.more = false
		ts.holdRejected()
		ts.shadow.check(ts)
		if ts.isHeld() && ts.lags() { // the client does not know what it should see
			q.KeepRemoved = s.keepsLocked(ts, now)
			news = !q.KeepRemoved
		}
		if !news && s.noted(h) <= ts.sent.Noted && (ts.isHeld() || !ts.lags() && !ts.owed) { // B14, B31
			ts.shadow.next(s, ts, &h, fresh, q.KeepRemoved, conversation.Wait)
			return q, nil
		}
	}
	if s.waitsLocked(ts, now) {
		return q, nil
	}
	switch {
	case !ts.isHeld():
		ts.shadow.next(s, ts, &h, fresh, q.KeepRemoved, conversation.Ask)
	case news:
		ts.shadow.next(s, ts, &h, fresh, q.KeepRemoved, conversation.AskQuietly)
	default:
		ts.shadow.next(s, ts, &h, fresh, q.KeepRemoved, conversation.AskNotes)
	}
	q = s.ask(ts.news(s.form, s.srv.bodyLimit()), h, now)
	q.Spared = !s.relay && h.Spares(q.Since, s.srv.timeOf(s.since))
	if ts.isHeld() {
		if !news {
			return s.notesLocked(ts, h, now)
		}
		quiet := q
		quiet.Quiet = true
		if b := s.bodyLocked(ts, h, quiet); b.data == nil && b.err == nil {
			s.skipLocked(ts, quiet, b) // B14: nothing that the client can see has changed
			if b.more {
				return s.pendingLocked(ts, now) // so far
			}
			return s.notesLocked(ts, h, now)
		}
		q = ts.unaccepted(q)
	}
	q, b = s.orderedLocked(ts, h, q, now)
	return s.dueLocked(ts, h, q, b, now)
}

// readyLocked returns the newest state of what the client wants of a type. ok is
// false while nothing may be said of it, whatever it is.
func (s *stream) readyLocked(ts *typeState, now time.Time) (h cache.Head, ok bool) {
	h = ts.table.Head(&ts.watcher)
	if h.Private && !ts.table.Sole() && s.tier == nil { // K17
		if s.waitsLocked(ts, now) {
			return h, false
		}
		s.moveLocked(ts)
		h = ts.table.Head(&ts.watcher)
	}
	ts.seen = h.Gen
	if s.tier != nil && s.outdatedLocked(ts, now) {
		return h, false
	}
	return h, s.mayTellLocked(ts, h) && s.compareLocked(ts, h, now)
}

// hasNews reports whether there may be resources or removals to tell.
func (ts *typeState) hasNews(h cache.Head) bool {
	told := ts.tell == nil || ts.isHeld() && ts.tell == ts.kept // a removal that is owed is no news
	return h.Gen > ts.sent.Gen || !told || ts.refresh != nil
}

// lags reports whether removals may have been held back from the newest response.
func (ts *typeState) lags() bool {
	return ts.sent.Removed < ts.sent.Gen || ts.kept != nil && ts.tell == ts.kept
}

// orderedLocked returns the answer to q without those removals that have to wait
// for other types (E2, E5, E8), and the query for it.
func (s *stream) orderedLocked(ts *typeState, h cache.Head, q cache.Query, now time.Time) (cache.Query, *body) {
	// Nothing that a newcomer has can be in the way of its routes while the rest
	// comes in parts. Who asks for everything again has not come anew.
	mayKeep := ts.again || (ts.supplies() || q.Since.Gen > 0) && q.Since.Removed <= q.Since.Gen
	ts.shadow.event(ts, func(c *conversation.Conversation) {
		mustAgree(c, "kept removals", c.MayKeepRemovals(q.Since, ts.supplies()), mayKeep)
	})
	b := s.bodyLocked(ts, h, q)
	// What has to wait is asked after the look at the table: a route may have changed
	// before the removal that we just saw. Where nothing is withdrawn, who has to wait
	// and who has not share the answer.
	if b.withdraws && mayKeep && s.keepsLocked(ts, now) {
		q.KeepRemoved = true
		b = s.bodyLocked(ts, h, q)
	}
	return q, b
}

// dueLocked returns b, the answer to q, if it has to be sent. If not, the client
// counts as having it.
func (s *stream) dueLocked(ts *typeState, h cache.Head, q cache.Query, b *body, now time.Time) (cache.Query, *body) {
	switch {
	case b.err != nil:
		s.end(b.err)
		return q, nil
	case s.claimHoldsLocked(ts, h, b):
		ts.sent, ts.acked, ts.owed = b.to, b.to, false
		return q, nil
	case b.local && s.nonces == 0:
		ts.shadow.judge(s, ts, &h, &q, b, conversation.Wait)
		return q, nil // it is not answered at all; see giveUpLocked
	case !s.delta && ts.table.Type.FullState && ts.nonce == 0 && !h.Known && b.resources == 0:
		ts.shadow.judge(s, ts, &h, &q, b, conversation.Wait)
		return q, nil // K13: that some names do not exist says nothing of the others
	case b.data != nil:
		ts.shadow.judge(s, ts, &h, &q, b, conversation.Send)
		return q, b
	case b.more: // a part of removals, which SotW cannot tell
		ts.shadow.judge(s, ts, &h, &q, b, conversation.SkipAndAsk)
		if ts.isHeld() { // nor can it be rejected: what comes again begins after it
			ts.acked, ts.told, ts.refreshed = b.to, nil, nil
		}
		s.skipLocked(ts, q, b)
		return s.pendingLocked(ts, now)
	case ts.owed && h.Known && !b.withholds: // B24
		ts.shadow.judge(s, ts, &h, &q, b, conversation.SendEmpty)
		empty := *b
		empty.data = s.srv.encode(ts.table.Type, s.form, &cache.Changes{Version: b.told, Source: b.source})
		return q, &empty
	}
	ts.shadow.judge(s, ts, &h, &q, b, conversation.Skip)
	s.skipLocked(ts, q, b)
	return q, nil
}

// waitsLocked reports whether the newest response has to be answered first (B9).
func (s *stream) waitsLocked(ts *typeState, now time.Time) bool {
	if !ts.inFlight {
		return false
	}
	ts.inFlight = s.isDueLocked(ts, now) // B12: silence is neither ACK nor NACK
	if !ts.inFlight {
		ts.shadow.event(ts, func(c *conversation.Conversation) { c.AckTimeout() })
	}
	return ts.inFlight
}

// isDueLocked reports whether an answer to the newest response may still come in time.
func (s *stream) isDueLocked(ts *typeState, now time.Time) bool {
	wait := s.srv.cfg.AckTimeout - ts.sentAt.before(s.srv.stamp(now))
	if wait > 0 {
		s.armLocked(now.Add(wait))
	}
	return wait > 0
}

// demandedLocked returns a response to what the client asked for on demand,
// where everything else of the type has to wait: the client holds up requests
// until it comes (E7). It is nil if there is none.
func (s *stream) demandedLocked(ts *typeState) (q cache.Query, b *body) {
	if ts.asked == nil || ts.rejection != notRejected { // B16: all of that has to come first
		return q, nil
	}
	h := ts.table.Head(&ts.watcher)
	q = s.ask(cache.Query{Since: ts.sent, Force: ts.asked, Only: true, Limit: s.srv.bodyLimit()}, h, time.Now())
	b = s.bodyLocked(ts, h, q)
	if b.data == nil {
		return q, nil
	}
	return q, b
}

// mayTellLocked reports whether the client may be told anything of a type.
func (s *stream) mayTellLocked(ts *typeState, h cache.Head) bool {
	ok := s.mayLocked(ts, h)
	ts.shadow.may(s, ts, &h, ok)
	return ok
}

func (s *stream) mayLocked(ts *typeState, h cache.Head) bool {
	switch {
	case h.Names == 0 && !h.Wildcard: // B4
		return false
	case h.Held:
		return false
	case !s.delta && ts.table.Type.FullState && ts.moved && !h.Known:
		return false // K13: the client holds something already
	case !s.delta && ts.table.Type.FullState && ts.nonce == 0 && !h.Known:
		// K13: a first full state that leaves out what is not known yet would
		// read as its removal, to who may hold it already or takes it for all
		// there is. Others get what exists of the names they ask for (B25).
		return !h.Wildcard && !ts.claimsVersion()
	}
	return true
}

// anyBehindLocked reports whether a type of the kind has changes that the
// client may be told and was not.
func (s *stream) anyBehindLocked(kind func(*typeState) bool) bool {
	for _, ts := range s.types {
		if !kind(ts) || ts.isUncompared() || ts.waitsForHead() {
			continue
		}
		if h := ts.table.Head(&ts.watcher); (h.Gen > ts.sent.Gen || ts.more || ts.asksFor()) && s.mayTellLocked(ts, h) {
			return true
		}
	}
	return false
}

// asksFor reports whether names wait to be told that the client wants anew, or again:
// whatever their generation, routes may lead there that came later.
func (ts *typeState) asksFor() bool { return ts.tell != nil && ts.tell != ts.kept || ts.refresh != nil }
