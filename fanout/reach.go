package fanout

import (
	"time"

	"xdsrelay/relay/cache"
)

// Reach costs a look at the client's position.
func (c client) Reach(t *cache.Table, u cache.UpdateRef) (state State, at time.Time, ok bool) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv.timeOf(s.since).After(u.At) {
		return "", time.Time{}, false
	}
	for _, ts := range s.types {
		if ts.table != t {
			continue
		}
		if !t.Concerns(&ts.watcher, u.Number) {
			return "", time.Time{}, false
		}
		switch {
		case ts.Acked.Gen >= u.Gen:
			state = Synced
		case ts.IsRejected():
			state = Nacked
		case ts.Unanswered() && ts.Sent.Gen >= u.Gen:
			state = Stale
		default:
			state = NotSent
		}
		return state, s.srv.timeOf(ts.since), true
	}
	return "", time.Time{}, false
}
