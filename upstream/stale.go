package upstream

import (
	"maps"
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// sweepQuiet is how long a server must be silent about a type before resources that it has not
// mentioned are removed. Nothing waits for that, so it is generous.
const sweepQuiet = time.Second

// initialVersions returns initial_resource_versions: what the cache has from the server of s (C8).
// Resources that may be unnamed are left out: the control plane would interpret their names, which
// the relay made up, as resources to remove.
func (r *runner) initialVersions(s *session, typ *resource.Type) map[string]string {
	if r.following != nil {
		return r.feed.SentVersions(typ)
	}
	r.content.Restored(r.feed.Server()) // the restored state of the key may have arrived late
	versions := r.content.Claims(s.serverStream.server.address, typ, r.feed.Held(typ))
	if typ.OnlyName != "" && len(versions) > 0 {
		r.mark(typ)
		return nil
	}
	return versions
}

// markAll marks everything that is cached as not from the present server (C8). SotW needs no
// marks: its versions are not per resource.
func (r *runner) markAll() {
	if !r.cp.cfg.Delta || r.following != nil {
		return
	}
	r.content.Unmark()
	for _, t := range r.feed.Types() {
		r.mark(t)
	}
}

// mark marks what is cached of a type as not confirmed by the present server.
func (r *runner) mark(t *resource.Type) {
	if held := r.feed.Held(t); len(held) > 0 {
		r.content.MarkOnly(t, slices.Collect(maps.Keys(held)))
	}
}

// sweep removes resources of a wildcard that are from another server and that the present one has
// not mentioned. Names without a wildcard stay: the server must report their removal, and silence
// is no removal (C11).
func (r *runner) sweep(a *asked) {
	if r.content.Marked(a.Type) == 0 || !a.HasWildcard() {
		return
	}
	r.feed.Apply(cache.Update{Type: a.Type, Removed: r.content.TakeMarked(a.Type), Kind: cache.Unmentioned})
}
