package cache

import (
	"slices"
	"strings"
)

// A table remembers the control plane's own versions of its newest updates, and up to which
// generation each reached: so "is version V everywhere" is a question about positions of clients.
// An update that changed nothing here has a version, too.

// MaxVersions is how many versions of the control plane a table remembers.
const MaxVersions = 16

// maxVersion is how much of a version is kept, in bytes.
const maxVersion = 128

// CutVersion returns what is kept of a control plane's version.
func CutVersion(version string) string {
	if len(version) <= maxVersion {
		return version
	}
	return strings.Clone(strings.ToValidUTF8(version[:maxVersion], ""))
}

// heardVersion is a version of the control plane with the generation of the table by then.
type heardVersion struct {
	version string
	gen     uint64
}

// heard has the newest versions, the oldest first. A table's mu guards it.
type heard []heardVersion

// newestVersion is the control plane's own version of an update; empty if it has none.
func (u *Update) newestVersion() string {
	switch n := len(u.Versions); {
	case u.Mirror && n > 0:
		return CutVersion(u.Versions[n-1])
	case u.Mirror:
		return CutVersion(u.System.Version)
	case u.System.Version != "":
		return CutVersion(u.System.Version)
	}
	return CutVersion(u.Version)
}

// hearLocked remembers the versions of an update that has just been applied.
func (t *Table) hearLocked(u *Update) {
	if t.group.cache.cfg.History <= 0 {
		return
	}
	if u.Mirror {
		for _, v := range u.Versions {
			t.heard.add(CutVersion(v), t.store.Gen())
		}
		return
	}
	t.heard.add(u.newestVersion(), t.store.Gen())
}

func (h *heard) add(version string, gen uint64) {
	if version == "" {
		return
	}
	if n := len(*h); n > 0 && (*h)[n-1].version == version {
		(*h)[n-1].gen = gen // another part of the same
		return
	}
	if len(*h) == MaxVersions {
		copy(*h, (*h)[1:])
		*h = (*h)[:MaxVersions-1]
	}
	*h = append(*h, heardVersion{version, gen})
}

// VersionReached returns the generation up to which a client needs the content of the table to have
// what came with a version of the control plane, or what is newer; ok is false if no update with
// that version is remembered. If there were several, as after a rollback, the newest counts.
func (t *Table) VersionReached(version string) (gen uint64, ok bool) {
	version = CutVersion(version)
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, h := range slices.Backward(t.heard) {
		if h.version == version {
			return h.gen, true
		}
	}
	return 0, false
}

// VersionsSince returns the control plane's versions of the updates after generation from, up to to,
// the oldest first. The last one may have begun before.
func (t *Table) VersionsSince(from, to uint64) (versions []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, h := range t.heard {
		if h.gen > from && h.gen <= to {
			versions = append(versions, h.version)
		}
	}
	return versions
}

// VersionAt is the control plane's version of the newest update that a client has which has the content
// up to a generation; empty if it is not remembered, or the update had none.
func (t *Table) VersionAt(gen uint64) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, h := range slices.Backward(t.heard) {
		if h.gen <= gen {
			return h.version
		}
	}
	return ""
}

// NewestVersion is the control plane's version of its newest update; empty if it has none.
func (t *Table) NewestVersion() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.heard.newest()
}

func (h heard) newest() string {
	if n := len(h); n > 0 {
		return h[n-1].version
	}
	return ""
}
