package cache

import (
	"strings"

	"xdsrelay/relay/cache/recent"
)

// A table remembers the control plane's own versions of its newest updates, and up to which
// generation each reached: so "is version V everywhere" is a question about positions of clients.
// An update that changed nothing here has a version, too.

// MaxVersions is how many versions of the control plane a table remembers.
const MaxVersions = recent.MaxVersions

// maxVersion is how much of a version is kept, in bytes.
const maxVersion = 128

// CutVersion returns what is kept of a control plane's version.
func CutVersion(version string) string {
	if len(version) <= maxVersion {
		return version
	}
	return strings.Clone(strings.ToValidUTF8(version[:maxVersion], ""))
}

// newestVersion is the control plane's own version of an update; empty if it has none.
func (u *Update) newestVersion() string {
	switch {
	case u.Mirror != nil && len(u.Mirror.Versions) > 0:
		return CutVersion(u.Mirror.Versions[len(u.Mirror.Versions)-1])
	case u.Mirror != nil, u.System.Version != "":
		return CutVersion(u.System.Version)
	}
	return CutVersion(u.Version)
}

// hear remembers the versions of an update that has just been applied.
func (t *core) hear(u *Update) {
	if t.group.cache.cfg.History <= 0 {
		return
	}
	if u.Mirror != nil {
		for _, v := range u.Mirror.Versions {
			t.heard.Add(CutVersion(v), t.store.Gen())
		}
		return
	}
	t.heard.Add(u.newestVersion(), t.store.Gen())
}

// VersionReached returns the generation up to which a client needs the content of the table to have
// what came with a version of the control plane, or what is newer; ok is false if no update with
// that version is remembered. If there were several, as after a rollback, the newest counts.
func (t *Table) VersionReached(version string) (gen uint64, ok bool) {
	version = CutVersion(version)
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.heard.Reached(version)
}

// VersionsSince returns the control plane's versions of the updates after generation from, up to to,
// the oldest first. The last one may have begun before.
func (t *Table) VersionsSince(from, to uint64) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.heard.Since(from, to)
}

// VersionAt is the control plane's version of the newest update that a client has which has the content
// up to a generation; empty if it is not remembered, or the update had none.
func (t *Table) VersionAt(gen uint64) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.heard.At(gen)
}

// NewestVersion is the control plane's version of its newest update; empty if it has none.
func (t *Table) NewestVersion() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.heard.Newest()
}
