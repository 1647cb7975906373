package cache

import (
	"iter"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// There are two accounts of a stream: what its control plane has sent, and what clients see of that.
// The next answer, the removal guard and a new upstream stream are compared with the first one, and
// clients are sent the second one. They differ by what a gate holds back (see gate.go). Resources
// whose removals the guard holds back count as sent.

// versions are the control plane's own versions of the content of one account.
type versions struct {
	// version is version_info, while the content is exactly what a SotW control plane sent (D7).
	version string
	// system is the newest of a delta control plane, whether or not the content still matches.
	system resource.SystemVersion
}

// sentSum sums up what a stream's control plane has sent.
func (t *core) sentSum(by int) table.Sum {
	sum := t.store.Sum(by)
	if g := t.streams[by].gate; g != nil {
		sum.Live, sum.Digest = g.Sent(sum.Live, sum.Digest)
	}
	return sum
}

// sent returns the resource that a stream's control plane has sent by the canonical name, and
// its newest version; nil if there is none.
func (t *core) sent(by int, name string) (res *resource.Resource, version string) {
	if g := t.streams[by].gate; g != nil {
		if c, pending := g.Get(name); pending && c.Sent != nil {
			return c.Sent, c.Sent.Version
		} else if pending {
			return nil, ""
		}
	}
	if e := t.store.Get(name); e != nil {
		if c := e.CopyFrom(by); c != nil {
			return c.Res, c.Version
		}
	}
	return nil, ""
}

// owns reports whether a stream's control plane has sent the resource of the canonical name, or
// refuses to show it.
func (t *core) owns(by int, name string) bool {
	if g := t.streams[by].gate; g != nil {
		if c, pending := g.Get(name); pending {
			return c.Sent != nil
		}
	}
	e := t.store.Get(name)
	return e != nil && e.BelongsTo(by)
}

// owned iterates over the canonical names that a stream owns; see owns.
func (t *core) owned(by int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, e := range t.store.Entries() {
			if g := t.streams[by].gate; g != nil {
				if _, pending := g.Get(name); pending {
					continue
				}
			}
			if e.BelongsTo(by) && !yield(name) {
				return
			}
		}
		if g := t.streams[by].gate; g != nil {
			for name, c := range g.All() {
				if c.Sent != nil && !yield(name) {
					return
				}
			}
		}
	}
}

// settleVersions updates the control plane's versions of a stream's content after u. sent and
// shown are the digests of the two accounts before, and exact says that all of u was accepted.
func (t *core) settleVersions(by int, u *Update, sent, shown resource.Digest, exact bool) {
	stream := &t.streams[by]
	account, now := &stream.versions, t.sentSum(by).Digest
	if stream.gate != nil {
		account = &stream.gate.sent
	}
	exact = exact && stream.guard.Len() == 0
	switch {
	case u.Mirror != nil && t.Type.FullState && u.Kind == Answer:
		account.version = u.Version
	case now != sent:
		account.settle(u, exact && len(u.Keep) == 0)
	}
	switch {
	case u.Mirror != nil && u.System.Version != "":
		account.system = u.System
	case now != sent && exact:
		account.system = resource.SystemVersion{Version: u.System.Version, Digest: now}
	}
	switch visible := t.store.Sum(by).Digest; {
	case stream.gate == nil:
	case u.Mirror != nil || visible != shown && visible == now: // clients see exactly what was sent
		stream.versions = stream.gate.sent
	case visible != shown:
		stream.version = ""
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
