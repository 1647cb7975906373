package fanout

import (
	"time"

	"xdsrelay/fanout/conversation"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// claims is what a client that came back said it holds of a type.
type claims struct {
	// held is what is left to be compared with what there is, by name (delta);
	// nil for nothing.
	held     []resource.Held
	compared bool // for the first time
	judged   bool // again, when the wildcard had been answered
	// version stands for all of it, until the first response (SotW); outdated says
	// that the client dropped some of that meanwhile.
	version  string
	outdated bool
	// until is when the client has waited long enough for the table to catch up
	// with the tier; zero while it does not wait. See behind.go.
	until time.Time
}

// comeback is kept of a stream whose client came back with claims, or that moved
// to tables of its own.
type comeback struct {
	// since is when that was, and asked when the client last asked for another
	// type; see resumingLocked.
	since, asked time.Time
}

// comesBackLocked notes that the client holds something from before.
func (s *stream) comesBackLocked() {
	now := time.Now()
	if s.back == nil {
		s.back = &comeback{asked: now}
	}
	s.back.since = now
}

// heldCost is what a name takes that a client says it holds, beside name and version.
const heldCost = 64

// size is roughly what is kept, in bytes.
func (c *claims) size() (n int) {
	if c == nil {
		return 0
	}
	n = len(c.version)
	for _, h := range c.held {
		n += len(h.Name) + len(h.Version) + heldCost
	}
	return n
}

// checkHeldLocked refuses a client that says it holds more than fits into two requests of
// the largest size: of types of which nothing is known that is kept for long.
func (s *stream) checkHeldLocked() error {
	n, most := 0, 2*s.srv.cfg.MaxReceiveBytes
	for _, ts := range s.types {
		n += ts.claims.size()
	}
	if n > most {
		return s.refuse(limit.MessageSize, n, most, "bytes of what one stream says it holds")
	}
	return nil
}

// maxVersion is how long a version may be that a relay has made itself, and more, in
// bytes: what is longer proves nothing.
const maxVersion = 512

// hasClaims reports whether claims by name are still to be compared.
func (ts *typeState) hasClaims() bool { return ts.claims != nil && ts.claims.held != nil }

// wasCompared reports whether there were such claims.
func (ts *typeState) wasCompared() bool { return ts.claims != nil && ts.claims.compared }

// isUncompared reports whether nothing is known yet of what the client holds.
func (ts *typeState) isUncompared() bool { return ts.hasClaims() && !ts.claims.compared }

func (ts *typeState) claimsVersion() bool { return ts.claims != nil && ts.claims.version != "" }

// claim leaves names of which nothing is known yet, and which the client may hold,
// to the answer for the glob or wildcard that covers them (B37).
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

// disclaim notes that the client has dropped names, or the wildcard, or was sent errors
// about them. What it held of them when it came back it needs again, if that is still to be
// compared.
func (ts *typeState) disclaim(names []string, wildcard bool) {
	if !ts.hasClaims() {
		return
	}
	dropped := cache.KeysOf(names)
	for i, h := range ts.claims.held {
		if wildcard || dropped.Has(resource.Canonical(h.Name)) {
			ts.claims.held[i].Version = "" // that of no resource
		}
	}
}

// compareLocked compares what a reconnecting delta client holds with what
// there is, as soon as that is known, or there is no hope for it (B37). It
// returns why the client must not be sent anything yet.
func (s *stream) compareLocked(ts *typeState, h cache.SubscriptionState, now time.Time) conversation.Reason {
	if !ts.hasClaims() {
		if s.waitsForVersionLocked(ts, h, now) {
			return conversation.AwaitingHead
		}
		return conversation.NothingNew
	}
	c := ts.claims
	if !c.compared {
		if !h.Known && !h.Unreachable {
			return conversation.Unknown
		}
		tell, at, rest := ts.table.Reconcile(&ts.watcher, c.held)
		if s.waitsForHeadLocked(ts, tell != nil, h.Behind, now) {
			return conversation.AwaitingHead
		}
		ts.Sent, ts.Acked = at, at
		if s.tier != nil { // none of these was claimed
			tell = tell.With(ts.table.Unshared(&ts.watcher))
		}
		ts.Force, c.held, c.compared = tell, rest, true
	} else if h.Gen > ts.Sent.Gen && ts.Sent == ts.Acked && !ts.IsRejected() {
		// It was compared when nobody could be asked, and now there is more.
		if tell, gen, rest, ok := ts.table.Arrived(&ts.watcher, ts.Sent, c.held); ok {
			ts.Sent.Gen, c.held = gen, rest
			ts.Force, ts.Acked = ts.Force.With(tell), ts.Sent
		}
	}
	if h.Known || h.WildcardKnown && !c.judged {
		gone, rest := ts.table.Gone(&ts.watcher, c.held)
		ts.Force, c.held, c.judged = ts.Force.With(gone), rest, h.WildcardKnown
	}
	return conversation.NothingNew
}

// claimHoldsLocked reports whether a reconnecting SotW client already has all
// that it would be sent: only for a wildcard on a full-state type, and only
// where the version proves the content (B39).
func (s *stream) claimHoldsLocked(ts *typeState, h cache.SubscriptionState, b *body) bool {
	if !ts.claimsVersion() {
		return false
	}
	claimed := ts.claims.version
	outdated := ts.claims.outdated
	ts.claims = nil
	return !outdated && !b.noted && !s.delta && ts.Nonce == 0 && h.Wildcard && h.Names == 0 && h.Known &&
		ts.table.Type.FullState && b.derived && b.version == claimed
}
