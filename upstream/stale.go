package upstream

import (
	"maps"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

const (
	// sweepQuiet is how long a server must be silent about a type before what
	// it has not mentioned goes. Nothing waits for that, so it is generous.
	sweepQuiet = time.Second
	// maxHeld bounds initial_resource_versions in bytes: gRPC servers take
	// 4 MiB by default.
	maxHeld = 3 << 20
)

// held is what the cache has from the server of s: initial_resource_versions
// (C8). Where that is too much for a request, it counts as unknown.
func (r *runner) held(s *session, typ *resource.Type) map[string]string {
	if r.source != s.link.server.index {
		return nil
	}
	held, size := r.feed.Held(typ), 0
	if stale := r.stale[typ.URL]; len(stale) > 0 {
		maps.DeleteFunc(held, func(n, _ string) bool {
			_, is := stale[resource.Canonical(n)]
			return is
		})
	}
	for n, v := range held {
		size += len(n) + len(v) + 8
	}
	if size > maxHeld {
		r.markStale(typ)
		return nil
	}
	return held
}

// noteStale marks all that is cached as not from the present server (C8). On
// SotW there is nothing to remember: versions are not per resource.
func (r *runner) noteStale() {
	if !r.cp.cfg.Delta {
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
