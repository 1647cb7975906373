package cache

import (
	"slices"

	"xdsrelay/relay/resource"
)

// Clients remember an error until they get the resource (C16). One that was away when the
// error was taken back and comes back with the newest copy needs it once more, also on
// another node, or after a restart. So the names of such errors are part of what is kept as
// last known good, and nodes that begin to follow a key get them from its owner.

// rememberLocked notes that clients hear of an error of name, which they remember until
// they get the resource, also over the end of their streams. There are as many of these
// names as there may be tombstones; beyond that all are forgotten.
func (t *Table) rememberLocked(name string) {
	if _, known := t.refused[name]; known {
		return
	}
	if len(t.refused) >= max(t.group.cache.cfg.Tombstones, t.live)+len(t.wants) {
		for name := range t.refused {
			t.bytes -= refusedSize(name)
		}
		clear(t.refused)
		t.refusedSum = resource.Digest{}
	}
	t.refused[name] = struct{}{}
	t.refusedSum = t.refusedSum.Add(resource.NamesDigest([]string{name}))
	t.bytes += refusedSize(name)
}

// dismissLocked forgets what rememberLocked noted: who remembers the error holds a copy
// that is not the newest any more, so it gets the resource anyway.
func (t *Table) dismissLocked(name string) {
	if _, known := t.refused[name]; known {
		delete(t.refused, name)
		t.refusedSum = t.refusedSum.Sub(resource.NamesDigest([]string{name}))
		t.bytes -= refusedSize(name)
	}
}

// pardonedLocked reports whether clients may remember an error of name, of which there is
// none any more.
func (t *Table) pardonedLocked(name string) bool {
	if _, known := t.refused[name]; !known {
		return false
	}
	return !slices.ContainsFunc(t.remarks[name], func(r *remark) bool { return !r.removal })
}

// refusedSize is roughly what a name in Table.refused takes, in bytes.
func refusedSize(name string) int64 { return int64(48 + len(name)) }

// Pardoned are the names of resources that w sees and of whose errors, which have been taken
// back, clients may still know; but those in known, to which they are added.
func (t *Table) Pardoned(w *Watcher, known map[string]struct{}) (names []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name := range t.refused {
		e := t.entries[name]
		if _, is := known[name]; is || e == nil || w.sub == nil || !w.sub.seesNowLocked(e) || !t.pardonedLocked(name) {
			continue
		}
		known[name] = struct{}{}
		names = append(names, name)
	}
	return names
}

// pardon notes names that another node knows from [Table.Pardoned].
func (u *turn) pardon(names []string) {
	for _, name := range names {
		if e := u.table.entries[name]; e != nil && e.heldBy(u.by) != nil {
			u.table.rememberLocked(name)
		}
	}
}

// adoptLocked takes what was kept of the type, with the names of which clients may remember
// an error.
func (t *Table) adoptLocked(r *revivable) {
	t.revivable = r
	if r == nil {
		return
	}
	for _, name := range r.kept.Refused {
		t.rememberLocked(name)
	}
}

// refusedKept are those names, for a record.
func (t *Table) refusedKept() (names []string) {
	for name := range t.refused {
		if e := t.entries[name]; e != nil && e.res != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
