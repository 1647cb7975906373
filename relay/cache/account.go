package cache

import (
	"iter"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// There are two accounts of a stream: what its control plane has sent, and what clients see of that.
// The next answer, the removal guard and a new upstream stream are compared with the first one, and
// clients are sent the second one. Both have the same content.

// versions are the control plane's own versions of the content of one account.
type versions struct {
	// version is version_info, while the content is exactly what a SotW control plane sent (D7).
	version string
	// system is the newest of a delta control plane, whether or not the content still matches.
	system resource.SystemVersion
}

// sentSumLocked sums up what a stream's control plane has sent.
func (t *Table) sentSumLocked(by int) table.Sum { return t.store.Sum(by) }

// sentLocked returns the resource that a stream's control plane has sent by the canonical name, and
// its newest version; nil if there is none.
func (t *Table) sentLocked(by int, name string) (res *resource.Resource, version string) {
	if e := t.store.Get(name); e != nil {
		if c := e.CopyFrom(by); c != nil {
			return c.Res, c.Version
		}
	}
	return nil, ""
}

// ownsLocked reports whether a stream's control plane has sent the resource of the canonical name, or
// refuses to show it.
func (t *Table) ownsLocked(by int, name string) bool {
	e := t.store.Get(name)
	return e != nil && e.BelongsTo(by)
}

// ownedLocked iterates over the canonical names that a stream owns; see ownsLocked.
func (t *Table) ownedLocked(by int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, e := range t.store.Entries() {
			if e.BelongsTo(by) && !yield(name) {
				return
			}
		}
	}
}

// settleVersionsLocked updates the control plane's versions of a stream's content after u. before is
// the digest of what it had sent until then, and exact says that all of u was accepted.
func (t *Table) settleVersionsLocked(by int, u *Update, before resource.Digest, exact bool) {
	stream := &t.streams[by]
	now := t.sentSumLocked(by).Digest
	exact = exact && stream.guard.Len() == 0
	switch {
	case u.Mirror && t.Type.FullState && !u.Partial:
		stream.version = u.Version
	case now != before:
		stream.settle(u, exact && len(u.Keep) == 0)
	}
	switch {
	case u.Mirror && u.System.Version != "":
		stream.system = u.System
	case now != before && exact:
		stream.system = resource.SystemVersion{Version: u.System.Version, Digest: now}
	}
}

// settle takes the control plane's version for changed content if that is exactly what was sent with
// it. Otherwise, and if the control plane uses one version twice, content digests replace it (D7).
func (v *versions) settle(u *Update, exact bool) {
	if !exact || !u.Full || u.Version == v.version {
		v.version = ""
		return
	}
	v.version = u.Version
}
