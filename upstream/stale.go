package upstream

import (
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

const (
	// sweepQuiet is how long a server must be silent about a type before what
	// it has not mentioned goes. Nothing waits for that, so it is generous.
	sweepQuiet = time.Second
	// noVersion is claimed where the version is not known any more. It is not
	// empty, since servers may take that for a name that is not held.
	noVersion = "unknown"
)

// held is what the cache has from the server of s: initial_resource_versions
// (C8). What it had of that server before the key was idle is claimed without the
// versions, since the server may have begun to count anew: so it sends what there
// is and says what is gone, which it would not of names that it never heard of.
// What the origin may give no name counts as unknown: it would take ours for one that
// it has to remove.
func (r *runner) held(s *session, typ *resource.Type) map[string]string {
	if r.following != nil {
		return r.feed.Told(typ)
	}
	if r.source < 0 && r.staleOf == "" {
		r.staleOf = r.feed.Server() // what was kept of the key came late
	}
	same, before := r.source == s.link.server.index, r.staleOf == s.link.server.address
	if !same && (r.source >= 0 || !before) {
		return nil
	}
	held := r.feed.Held(typ)
	if stale := r.stale[typ.URL]; !same || len(stale) > 0 {
		for n := range held {
			if _, is := stale[resource.Canonical(n)]; same && !is {
				continue
			}
			if held[n] = noVersion; !before {
				delete(held, n)
			}
		}
	}
	if typ.OnlyName != "" && len(held) > 0 {
		r.markStale(typ)
		return nil
	}
	return held
}

// noteUnclaimed marks what is cached and was not claimed on the new stream, because its
// versions did not fit in the first request: the server sends it again.
func (r *runner) noteUnclaimed(t *resource.Type, names []string) {
	if r.stale[t.URL] == nil {
		r.stale[t.URL] = make(map[string]struct{}, len(names))
	}
	for _, n := range names {
		r.stale[t.URL][resource.Canonical(n)] = struct{}{}
	}
}

// noteStale marks all that is cached as not from the present server (C8). On
// SotW there is nothing to remember: versions are not per resource.
func (r *runner) noteStale() {
	if !r.cp.cfg.Delta || r.following != nil {
		return
	}
	clear(r.stale)
	for _, t := range r.feed.Types() {
		r.markStale(t)
	}
}

func (r *runner) markStale(t *resource.Type) {
	held := r.feed.Held(t)
	if len(held) == 0 {
		return
	}
	names := make(map[string]struct{}, len(held))
	for n := range held {
		names[resource.Canonical(n)] = struct{}{}
	}
	r.stale[t.URL] = names
}

// sweep removes what another server had put into a wildcard set and this one
// has not mentioned. Names without a wildcard stay: the server must say itself
// that they are gone, and silence is no deletion (C11).
func (r *runner) sweep(a *asked) {
	stale := r.stale[a.typ.URL]
	if len(stale) == 0 || !a.wild {
		return
	}
	names := make([]string, 0, len(stale))
	for n := range stale {
		names = append(names, n)
	}
	delete(r.stale, a.typ.URL)
	r.feed.Apply(cache.Update{Type: a.typ, Removed: names, Partial: true})
}
