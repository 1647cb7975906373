package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// claims are the resources of a type that a reconnected client says it holds.
type claims struct {
	// held are the resources that are still to be compared with the table, by name (delta); nil for
	// none.
	held []resource.Held
	// silent are those of which the control plane has said nothing, although it has answered. It may
	// answer in several responses, so until a time they are compared with what arrives.
	silent      []resource.Held
	silentUntil time.Time
	compared    bool // the first comparison is done
	judged      bool // the comparison after the answer to the wildcard is done
	// version covers all held resources until the first response (SotW). outdated means that the
	// client has dropped some of them since.
	version  string
	outdated bool
	// until is the time at which the client stops waiting for the table to catch up with the tier;
	// zero while it does not wait. See behind.go.
	until time.Time
}

// comeback is the state of a stream whose client reconnected with claims or that moved to tables of
// its own.
type comeback struct {
	// since is the time of that event. asked is when the client last subscribed to another type;
	// see resumingLocked.
	since, asked time.Time
}

// comesBackLocked records that the client holds resources from before.
func (s *stream) comesBackLocked() {
	now := time.Now()
	if s.back == nil {
		s.back = &comeback{asked: now}
	}
	s.back.since = now
}

// heldCost is the memory of a name that a client says it holds, besides name and version, in bytes.
const heldCost = 64

// size returns roughly the memory of the claims, in bytes.
func (c *claims) size() (n int) {
	if c == nil {
		return 0
	}
	n = len(c.version)
	for _, some := range [][]resource.Held{c.held, c.silent} {
		for _, h := range some {
			n += len(h.Name) + len(h.Version) + heldCost
		}
	}
	return n
}

// checkHeldLocked rejects a client that says it holds more than fits into two requests of the
// largest size: claims of types without known content are kept for long.
func (s *stream) checkHeldLocked() error {
	n, most := 0, 2*s.srv.cfg.MaxReceiveBytes
	for _, ts := range s.types {
		n += ts.claims.size()
	}
	if n > most {
		return s.refuse(limit.MessageSize, n, most, "bytes of names and versions that one stream reports in initial_resource_versions")
	}
	return nil
}

// maxVersion is how much is kept of a version that a client states, in bytes. No relay makes a
// version of this length: a longer one proves nothing.
const maxVersion = 512

// claimLocked takes over what a returning client says it holds. Claims that can be compared at once
// are not even decoded.
func (s *stream) claimLocked(ts *typeState, held resource.HeldList) {
	if ts.claims == nil {
		return
	}
	if s.tier == nil && held.Len() > 0 && s.seesLocked(ts) == nil {
		if force, at, ok := ts.table.Returned(&ts.watcher, held); ok {
			ts.Sent, ts.Acked, ts.Force = at, at, force
			ts.claims = &claims{compared: true, judged: true}
			return
		}
	}
	if all := held.Decode(); all != nil {
		ts.claims.held = all
	}
}

// hasClaims reports whether claims by name are still to be compared.
func (ts *typeState) hasClaims() bool { return ts.claims != nil && ts.claims.held != nil }

// pending reports whether something that the client claims is still to be compared.
func (c *claims) pending() bool {
	return c != nil && (c.held != nil || c.silent != nil || c.version != "" || !c.until.IsZero())
}

// wasCompared reports whether claims by name were compared.
func (ts *typeState) wasCompared() bool { return ts.claims != nil && ts.claims.compared }

// isUncompared reports whether no claim by name was compared yet.
func (ts *typeState) isUncompared() bool { return ts.hasClaims() && !ts.claims.compared }

func (ts *typeState) claimsVersion() bool { return ts.claims != nil && ts.claims.version != "" }

// claim keeps names whose existence is still unknown, and which the client may hold, until the glob
// or wildcard that covers them is answered (B37).
func (ts *typeState) claim(names *cache.Names) {
	if names == nil {
		return
	}
	if ts.claims == nil {
		ts.claims = &claims{}
	}
	c := ts.claims
	if c.held == nil {
		c.compared = true
	}
	c.judged = false
	for _, n := range names.List {
		c.held = append(c.held, resource.Held{Name: n})
	}
}

// disclaim records that the client dropped names or the wildcard, or was sent errors about them.
// The client needs those again that it held when it reconnected, if they are still to be compared.
func (ts *typeState) disclaim(names []string, wildcard bool) {
	if c := ts.claims; c == nil || len(c.held)+len(c.silent) == 0 {
		return
	}
	dropped := cache.KeysOf(names)
	for _, some := range [][]resource.Held{ts.claims.held, ts.claims.silent} {
		for i, h := range some {
			if wildcard || dropped.Has(resource.Canonical(h.Name)) {
				some[i].Version = "" // no resource has this version
			}
		}
	}
}

// compareLocked compares the resources that a reconnecting delta client holds with the table, as
// soon as the content is known or cannot become known (B37). It returns the reason why nothing may
// be sent to the client yet.
func (s *stream) compareLocked(ts *typeState, h *cache.SubscriptionState, now time.Time) conversation.Reason {
	if h.Gen > ts.Sent.Gen {
		ts.recallSilent(now)
	}
	if !ts.hasClaims() {
		if s.waitsForVersionLocked(ts, h, now) {
			return conversation.AwaitingHead
		}
		return conversation.NothingNew
	}
	c := ts.claims
	if !c.compared {
		if h.Answer == cache.Awaited {
			return conversation.Unknown
		}
		awaits := ts.awaits(h.Behind.Until, now)
		force, at, rest := ts.table.Reconcile(&ts.watcher, s.seesLocked(ts), c.held, s.openLocked(ts.isOnlyFor, now))
		if s.waitsForHeadLocked(ts, force != nil && awaits, h.Behind.Until, now) {
			return conversation.AwaitingHead
		}
		ts.Sent, ts.Acked = at, at
		if s.tier != nil { // the client claims none of these
			force = force.With(ts.table.Unshared(&ts.watcher))
		}
		ts.Force, c.held, c.compared = force, rest, true
	} else if h.Gen > ts.Sent.Gen && !ts.IsRejected() {
		// The comparison was made while the control plane was unreachable, and now there is more
		// content. It is compared once the client has accepted what it was sent before.
		if s.waitsLocked(ts, now) {
			return conversation.AwaitingAck
		}
		ts.compareArrived(s.seesLocked(ts))
	}
	wildcard := h.Wildcard == cache.WildcardKnown
	if (h.Answer == cache.Answered || wildcard && !c.judged) && !s.judgesLaterLocked(ts, h.Behind.Until, now) {
		gone, rest, silent := ts.table.Gone(&ts.watcher, s.seesLocked(ts), c.held)
		ts.Force, c.held, c.judged = ts.Force.With(gone), rest, wildcard
		c.setSilent(silent, now)
	}
	return conversation.NothingNew
}

// judgesLaterLocked reports whether claims that are left cannot be judged yet: the table counts as behind
// until then, so the tier may have what it lacks (K12), or claims to what refers to them are open, too.
func (s *stream) judgesLaterLocked(ts *typeState, until, now time.Time) bool {
	switch {
	case len(ts.claims.held) == 0:
		return false
	case ts.awaits(until, now):
		s.armLocked(until)
		return true
	}
	return s.openLocked(ts.isOnlyFor, now)
}

// claimsAssumed reports whether the client claims to have resources of which the control plane has said
// nothing, while the silence about some that it asks for counts as their absence: to such a client that
// removes nothing (K14). It may be compared with that after it was sent an error about them (K15).
func (ts *typeState) claimsAssumed() bool {
	return ts.claims != nil && len(ts.claims.held) > 0 && ts.table.Assumes(&ts.watcher)
}

// setSilent records claims that are silent, for as long as the first ones may be compared.
func (c *claims) setSilent(silent []resource.Held, now time.Time) {
	if len(silent) > 0 && c.silentUntil.IsZero() {
		c.silentUntil = now.Add(resumeLimit)
	}
	if now.Before(c.silentUntil) {
		c.silent = append(c.silent, silent...)
	}
}

// recallSilent makes claims that are silent be compared once more, since there is news.
func (ts *typeState) recallSilent(now time.Time) {
	c := ts.claims
	if c == nil || c.silent == nil {
		return
	}
	if now.Before(c.silentUntil) {
		c.held = append(c.held, c.silent...)
	}
	c.silent = nil
}

// compareArrived compares claims by name with what has arrived since the newest response. If the client has
// not accepted that, it is sent all of it. v is the view that it sees, if any.
func (ts *typeState) compareArrived(v *cache.View) {
	force, gen, rest, ok := ts.table.Arrived(&ts.watcher, v, ts.Sent, ts.claims.held)
	ts.claims.held = rest
	if ok && ts.Sent == ts.Acked {
		ts.Sent.Gen = gen
		ts.Force, ts.Acked = ts.Force.With(force), ts.Sent
	}
}

// claimHoldsLocked reports whether a reconnecting SotW client already has all content that would be
// sent to it. This is possible only for a wildcard on a full-state type, and only if the version
// proves the content (B39).
func (s *stream) claimHoldsLocked(ts *typeState, h *cache.SubscriptionState, b *body) bool {
	if !ts.claimsVersion() {
		return false
	}
	claimed := ts.claims.version
	outdated := ts.claims.outdated
	ts.claims = nil
	return !outdated && ts.scope(s.form) == cache.FullState && ts.Nonce == 0 && h.HasWildcardAlone() && h.Answer == cache.Answered && b.proof == claimed
}
