package upstream

import (
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

const (
	// sweepQuiet is how long a server must be silent about a type before resources that it has not
	// mentioned are removed. Nothing waits for that, so it is generous.
	sweepQuiet = time.Second
	// noVersion is sent if the version is not known any more. It is not empty, since servers may
	// interpret an empty version as a resource that the client does not have.
	noVersion = "unknown"
)

// initialVersions returns initial_resource_versions: what the cache has from the server of s (C8).
// After an idle period it lists names without versions, since the server may have restarted its
// version counter. For a listed name the server sends the current state or a removal; for an
// unlisted name it would send neither. Resources that may be unnamed are left out: the control
// plane would interpret their names, which the relay made up, as resources to remove.
func (r *runner) initialVersions(s *session, typ *resource.Type) map[string]string {
	if r.following != nil {
		return r.feed.SentVersions(typ)
	}
	if r.source < 0 && r.staleOf == "" {
		r.staleOf = r.feed.Server() // the restored state of the key arrived late
	}
	same, before := r.source == s.serverStream.server.index, r.staleOf == s.serverStream.server.address
	if !same && (r.source >= 0 || !before) {
		return nil
	}
	versions := r.feed.Held(typ)
	if stale := r.stale[typ.URL]; !same || len(stale) > 0 {
		for n := range versions {
			if _, is := stale[resource.Canonical(n)]; same && !is {
				continue
			}
			if versions[n] = noVersion; !before {
				delete(versions, n)
			}
		}
	}
	if typ.OnlyName != "" && len(versions) > 0 {
		r.markStale(typ)
		return nil
	}
	return versions
}

// noteUnsentVersions marks cached resources whose versions did not fit in the first request of the
// new stream. The server resends them.
func (r *runner) noteUnsentVersions(t *resource.Type, names []string) {
	if r.stale[t.URL] == nil {
		r.stale[t.URL] = make(map[string]struct{}, len(names))
	}
	for _, n := range names {
		r.stale[t.URL][resource.Canonical(n)] = struct{}{}
	}
}

// noteStale marks everything that is cached as not from the present server (C8). SotW needs no
// marks: its versions are not per resource.
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
	versions := r.feed.Held(t)
	if len(versions) == 0 {
		return
	}
	names := make(map[string]struct{}, len(versions))
	for n := range versions {
		names[resource.Canonical(n)] = struct{}{}
	}
	r.stale[t.URL] = names
}

// sweep removes resources of a wildcard that are from another server and that the present one has
// not mentioned. Names without a wildcard stay: the server must report their removal, and silence
// is no removal (C11).
func (r *runner) sweep(a *asked) {
	stale := r.stale[a.Type.URL]
	if len(stale) == 0 || !a.HasWildcard() {
		return
	}
	names := make([]string, 0, len(stale))
	for n := range stale {
		names = append(names, n)
	}
	delete(r.stale, a.Type.URL)
	r.feed.Apply(cache.Update{Type: a.Type, Removed: names, Partial: true})
}
