package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// A client that comes from another node may hold newer content than this node has. While the table
// is behind the newest content that the tier has agreed on, such a client is not rolled back: it
// waits until the table has changed or the time is over, and is then sent the content of the table
// (K12). Other clients are served at once.

// byNameWait bounds the wait of a SotW client that subscribes by name: its version covers its own
// names only, so it does not prove that the client's content is newer. If the tier head proves that
// the node's content is older than what clients of other nodes may have, or the control plane cannot
// bring what is newer yet, such a client waits like all others.
const byNameWait = 500 * time.Millisecond

// waitsForHead reports whether the client has begun to wait.
func (ts *typeState) waitsForHead() bool { return ts.claims != nil && !ts.claims.until.IsZero() }

// awaits reports whether the table counts as behind until then, and makes sure that the client is
// woken when that changes. To be called before the content is compared with what the client holds:
// the table may catch up meanwhile.
func (ts *typeState) awaits(until, now time.Time) bool {
	return until.After(now) && ts.table.Await(&ts.watcher)
}

// waitsForHeadLocked reports whether the client must wait: the table counts as behind until then,
// and its content differs from what the client holds.
func (s *stream) waitsForHeadLocked(ts *typeState, differs bool, until, now time.Time) bool {
	c := ts.claims
	if differs && until.After(now) {
		if c.until.IsZero() {
			c.until = until // later heads do not extend the wait
		}
		if c.until.After(now) {
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

// waitsForVersionLocked is waitsForHeadLocked for a SotW client that has stated the version it
// holds.
func (s *stream) waitsForVersionLocked(ts *typeState, h *cache.SubscriptionState, now time.Time) bool {
	if !ts.claimsVersion() || h.Behind.Until.IsZero() && !ts.waitsForHead() {
		return false
	}
	until, claimed := h.Behind.Until, ts.claims.version
	awaits, differs := ts.awaits(until, now), false
	switch limit := now.Add(byNameWait); {
	case until.IsZero():
	case h.HasWildcardAlone():
		differs = ts.table.Ahead(claimed)
	default:
		differs = ts.table.Version(&ts.watcher) != claimed
		if until.After(limit) && !h.Behind.ByNameToo {
			until = limit
		}
	}
	return s.waitsForHeadLocked(ts, differs && awaits, until, now)
}
