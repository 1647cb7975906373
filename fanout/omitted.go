package fanout

import (
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A SotW request that crosses a response is stale on arrival, so it is not answered (B8). The
// client's answer to the response repeats the names that the stale request adds. The client has
// dropped the names that the stale request omits. If its answer to the response states those again,
// the request names no more than ever, and yet the client waits for all names that it had dropped
// (B18). So the relay records omissions and applies them together with the next request that is not
// stale. Until then the subscription stays unchanged: a full state that is sent meanwhile must not
// lack names that the client wants again (B12).

// omittedLocked records the names that a stale request omits.
func (s *stream) omittedLocked(ts *typeState, r *resource.Request) error {
	wild, names, err := ts.wishes(r)
	if err != nil {
		return err
	}
	omitted := ts.table.Omitted(&ts.watcher, wild, names)
	if len(omitted) == 0 {
		return nil
	}
	s.chargeNames(omitted) // a short request may omit many
	if ts.repeat == nil {
		ts.repeat = &repeat{}
	}
	ts.repeat.omitted = ts.repeat.omitted.With(cache.NewNames(omitted))
	return nil
}

// heard adds the omissions of stale requests to the changes of a request that counts.
func (ts *typeState) heard(ed *cache.Edited) {
	if ts.repeat == nil {
		return
	}
	again := ts.repeat.omitted.Without(ed.Removed)
	ts.repeat = nil
	if again.Has(wildcardName) && !ed.Left {
		ed.Wildcard, ed.Left = true, true
	}
	if names := again.Without([]string{wildcardName}); names != nil {
		ed.Removed, ed.Added = slices.Concat(ed.Removed, names.List), slices.Concat(ed.Added, names.List)
	}
}
