package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// A client that comes from another node may hold more than this one has yet. While
// the table is behind what the tier agrees is newest, it is not sent back: it waits
// until the table has changed, or the time is over, and is then told what there is
// (K12). Others are served at once.

// byNameWait bounds the wait of a SotW client that asks by name: its version stands for its
// own names, so it does not prove that what it holds is newer. Where the tier head proves
// that what the node has is older than what clients of other nodes may have, it waits like
// all others.
const byNameWait = 500 * time.Millisecond

// waitsForHead reports whether the client was found to wait.
func (ts *typeState) waitsForHead() bool { return ts.claims != nil && !ts.claims.until.IsZero() }

// waitsForHeadLocked reports whether the client has to wait, since the table counts
// as behind until then, and has something else than the client holds.
func (s *stream) waitsForHeadLocked(ts *typeState, differs bool, until, now time.Time) bool {
	c := ts.claims
	if differs && until.After(now) {
		if c.until.IsZero() {
			c.until = until // heads that come later do not make it longer
		}
		if c.until.After(now) && ts.table.Await(&ts.watcher) {
			s.armLocked(c.until)
			return true
		}
	}
	if !c.until.IsZero() {
		s.srv.metrics.waited(c.until.After(now))
		c.until = time.Time{}
	}
	return false
}

// waitsForVersionLocked is waitsForHeadLocked for a SotW client that has said which
// version it holds.
func (s *stream) waitsForVersionLocked(ts *typeState, h cache.SubscriptionState, now time.Time) bool {
	if !ts.claimsVersion() || h.Behind.IsZero() && !ts.waitsForHead() {
		return false
	}
	until, claimed := h.Behind, ts.claims.version
	differs := false
	switch limit := now.Add(byNameWait); {
	case h.Behind.IsZero():
	case h.Wildcard && h.Names == 0:
		differs = ts.table.Ahead(claimed)
	default:
		differs = ts.table.Version(&ts.watcher) != claimed
		if until.After(limit) && !h.Proven {
			until = limit
		}
	}
	return s.waitsForHeadLocked(ts, differs, until, now)
}
