package fanout

import (
	"slices"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// A SotW request that crosses a response is stale when it arrives, so it is not answered
// (B8). What it adds, the answer to the response names as well. What it omits, the client
// has dropped: if the answer names that again, it names what it always named, and yet the
// client waits for all it has dropped (B18). So omissions are noted, and count together with
// the next request that is not stale. Until then the subscription stays as it is: what the
// client wants again must not be missing from a full state that is sent meanwhile (B12).

// omittedLocked notes what a stale request omits.
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

// heard adds what stale requests have omitted to what a request changes that counts.
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
