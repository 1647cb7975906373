package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// pendingLocked returns the response that is due for a type now, or a nil body
// if there is none. It moves the client's position past changes that are no
// news to it.
func (s *stream) pendingLocked(ts *typeState, now time.Time) (q cache.Query, b *body) {
	if b := s.refusalLocked(ts, now); b != nil {
		return q, b
	}
	h := ts.table.Head(&ts.watcher)
	if h.Private && !ts.private { // K17
		if s.waitsLocked(ts, now) {
			return q, nil
		}
		s.moveLocked(ts)
		h = ts.table.Head(&ts.watcher)
	}
	if !s.mayTellLocked(ts, h) || !s.compareLocked(ts, h) {
		return q, nil
	}
	s.repeatLocked(ts, now)
	lagging := ts.sent.Removed < ts.sent.Gen
	told := ts.tell == nil || ts.rejected && ts.tell == ts.kept // a removal that is owed is no news
	news := h.Gen > ts.sent.Gen || !told || ts.refresh != nil
	ts.hopeless = h.Hopeless && (h.Names > 0 || h.Wildcard)
	if !news {
		ts.more = false
		ts.holdMarred()
		if s.noted(h) <= ts.sent.Noted && (ts.rejected || !lagging && !ts.owed) { // B14, B31
			return q, nil
		}
	}
	if s.waitsLocked(ts, now) {
		return q, nil
	}

	q = s.ask(ts.news(s.form, s.srv.bodyLimit()), h, now)
	if ts.rejected {
		quiet := q
		quiet.Quiet = true
		if !news {
			return s.notesLocked(ts, h, now)
		}
		if b := s.bodyLocked(ts, h, quiet); b.data == nil && b.err == nil {
			ts.skipped(quiet, b) // B14: nothing that the client can see has changed
			if b.more {
				return s.pendingLocked(ts, now) // so far
			}
			return s.notesLocked(ts, h, now)
		}
		q = ts.afresh(q)
	}
	// Nothing that a newcomer has can be in the way of its routes while the rest
	// comes in parts.
	mayKeep := (ts.supplies() || q.Since.Gen > 0) && q.Since.Removed <= q.Since.Gen
	q.KeepRemoved = mayKeep && s.keepsLocked(ts, now)
	b = s.bodyLocked(ts, h, q)
	if b.removed > 0 && mayKeep && !q.KeepRemoved && s.keepsLocked(ts, now) {
		// A route changed before the removal that we just saw (E2, E8).
		q.KeepRemoved = true
		b = s.bodyLocked(ts, h, q)
	}
	switch {
	case b.err != nil:
		s.end(b.err)
		return q, nil
	case s.claimHoldsLocked(ts, h, b):
		ts.sent, ts.acked, ts.owed = b.to, b.to, false
		return q, nil
	case b.local && s.nonces == 0:
		return q, nil // it is not answered at all; see giveUpLocked
	case !s.delta && ts.table.Type.FullState && ts.nonce == "" && !h.Known && b.resources == 0:
		return q, nil // K13: that some names do not exist says nothing of the others
	case b.data != nil:
		return q, b
	case b.more: // a part of removals, which SotW cannot tell
		if ts.rejected { // nor can it be rejected: what comes again begins after it
			ts.acked, ts.told, ts.refreshed = b.to, nil, nil
		}
		ts.skipped(q, b)
		return s.pendingLocked(ts, now)
	case ts.owed && h.Known: // B24
		empty := *b
		empty.data = s.srv.encode(ts.table.Type, s.form, &cache.Changes{Version: b.version, Source: b.source})
		return q, &empty
	}
	ts.skipped(q, b)
	return q, nil
}

// waitsLocked reports whether the newest response has to be answered first (B9).
func (s *stream) waitsLocked(ts *typeState, now time.Time) bool {
	if !ts.inFlight {
		return false
	}
	if wait := s.srv.cfg.AckTimeout - now.Sub(ts.sentAt); wait > 0 {
		s.armLocked(now.Add(wait))
		return true
	}
	ts.inFlight = false // B12: silence is neither ACK nor NACK
	return false
}

// demandedLocked returns a response to what the client asked for on demand,
// where everything else of the type has to wait: the client holds up requests
// until it comes (E7). It is nil if there is none.
func (s *stream) demandedLocked(ts *typeState) (q cache.Query, b *body) {
	if ts.asked == nil || ts.rejected || ts.marred { // B16: all of that has to come first
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
	switch {
	case h.Names == 0 && !h.Wildcard: // B4
		return false
	case h.Held:
		return false
	case !s.delta && ts.table.Type.FullState && ts.moved && !h.Known:
		return false // K13: the client holds something already
	case !s.delta && ts.table.Type.FullState && ts.nonce == "" && !h.Known:
		// K13: a first full state that leaves out what is not known yet would
		// read as its removal, to who may hold it already or takes it for all
		// there is. Others get what exists of the names they ask for (B25).
		return !h.Wildcard && ts.claimed == ""
	}
	return true
}

// compareLocked compares what a reconnecting delta client holds with what
// there is, as soon as that is known, or there is no hope for it (B37). It
// reports whether the client may be told anything.
func (s *stream) compareLocked(ts *typeState, h cache.Head) bool {
	if ts.claims == nil {
		return true
	}
	if !ts.compared {
		if !h.Known && !h.Hopeless {
			return false
		}
		tell, at, rest := ts.table.Reconcile(&ts.watcher, ts.claims)
		ts.sent, ts.acked = at, at
		ts.tell, ts.claims, ts.compared = tell, rest, true
	}
	if h.Known || h.WildcardKnown && !ts.judged {
		gone, rest := ts.table.Gone(&ts.watcher, ts.claims)
		ts.tell, ts.claims, ts.judged = ts.tell.With(gone), rest, h.WildcardKnown
	}
	return true
}

// claimHoldsLocked reports whether a reconnecting SotW client already has all
// that it would be sent: only for a wildcard on a full-state type, and only
// where the version proves the content (B39).
func (s *stream) claimHoldsLocked(ts *typeState, h cache.Head, b *body) bool {
	claimed := ts.claimed
	ts.claimed = ""
	return claimed != "" && !b.noted && !s.delta && ts.nonce == "" && h.Wildcard && h.Names == 0 && h.Known &&
		ts.table.Type.FullState && b.derived && b.version == claimed
}

// giveUpLocked reacts for a client that waits for an origin that cannot be
// reached, before it takes the silence for absence (K15): a stream that had no
// answer at all is ended, so that the client can fall back, and on others it is
// told an error for each name.
func (s *stream) giveUpLocked(now time.Time) {
	if !s.hopelessLocked() {
		s.hopeless = time.Time{}
		return
	}
	if s.hopeless.IsZero() {
		s.hopeless = now
	}
	if wait := s.srv.cfg.OriginTimeout - now.Sub(s.hopeless); wait > 0 {
		s.armLocked(now.Add(wait))
		return
	}
	if s.nonces == 0 {
		s.end(errNoOrigin)
		return
	}
	s.hopeless = now // for names that are asked for from now on
	s.armLocked(now.Add(s.srv.cfg.OriginTimeout))
	for _, ts := range s.types {
		if ts.hopeless && s.takesErrors(ts) {
			ts.table.GiveUp(&ts.watcher)
		}
	}
}

// hopelessLocked reports whether something was asked for that is not known and
// that nobody can be asked about, and the client can be told so.
func (s *stream) hopelessLocked() bool {
	for _, ts := range s.types {
		if ts.hopeless && (s.nonces == 0 || s.takesErrors(ts)) {
			return true
		}
	}
	return false
}

// takesErrors reports whether errors of the relay's own can be told: a full state
// without the name would read as its removal, and version 2 has none.
func (s *stream) takesErrors(ts *typeState) bool {
	return !s.v2 && (s.delta || !ts.table.Type.FullState)
}

// anyBehindLocked reports whether a type of the kind has changes that the
// client may be told and was not.
func (s *stream) anyBehindLocked(kind func(*typeState) bool) bool {
	for _, ts := range s.types {
		if !kind(ts) || ts.claims != nil && !ts.compared {
			continue
		}
		if h := ts.table.Head(&ts.watcher); (h.Gen > ts.sent.Gen || ts.more) && s.mayTellLocked(ts, h) {
			return true
		}
	}
	return false
}

func (s *stream) bodyLocked(ts *typeState, h cache.Head, q cache.Query) *body {
	if ts.private {
		return s.srv.buildBody(ts, q, s.form)
	}
	k := bodyKey{
		subscription: h.Subscription, gen: h.Gen, since: q.Since,
		form: s.form, keepRemoved: q.KeepRemoved, only: q.Only, forced: q.Force != nil || q.Refresh != nil,
		known: h.Known, noted: s.noted(h), quiet: q.Quiet, notesOnly: q.NotesOnly,
	}
	if !q.At.IsZero() {
		k.at = q.At.UnixNano()
	}
	if q.Except != nil {
		k.except = q.Except.Digest
	}
	if q.Force != nil {
		k.force = q.Force.Digest
	}
	if q.Refresh != nil {
		k.refresh = q.Refresh.Digest
	}
	slot := s.srv.bodies.Slot(k)
	if b := slot.Value(); b != nil {
		return b
	}
	return s.srv.bodies.Fill(k, slot, func() (*body, int64) {
		b := s.srv.buildBody(ts, q, s.form)
		return b, int64(cap(b.data))
	})
}

// armLocked makes sure that the stream is looked at again when at has come.
func (s *stream) armLocked(at time.Time) {
	if s.ended || !s.alarmAt.IsZero() && !s.alarmAt.After(at) {
		return
	}
	s.alarmAt = at
	wake := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alarmAt = time.Time{}
		s.flushLocked()
	}
	if s.alarm == nil {
		s.alarm = time.AfterFunc(time.Until(at), wake)
	} else {
		s.alarm.Reset(time.Until(at))
	}
}
