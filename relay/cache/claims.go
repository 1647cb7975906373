package cache

import "xdsrelay/relay/resource"

// A new delta stream begins with claims, the versions of the present content, and the answer omits
// what they have right (C8). Last known good, or content of other nodes, may replace that content
// before the answer arrives, while the control plane or the owner of the key is slow. Such an
// answer does not match the content of the table.

// Claims returns a number that identifies the content of the stream for a type, as far as claims
// are concerned: it changes when restored content has replaced the previous content, or has been
// added to a complete set, and when the process has slept. It is taken before the claims are made.
func (f *Feed) Claims(typ *resource.Type) uint64 {
	t := f.group.lookup(typ)
	if t == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.streams[f.stream].claims
}

// ApplyAnswer is [Feed.Apply] of an answer to claims. It stores nothing and returns false if the
// content of the stream has changed since, or the process has slept: the control plane has to be
// asked again, with other claims. After the end of the feed, and for a type that no client has asked for, nothing is left
// to ask, and it returns true.
func (f *Feed) ApplyAnswer(claims uint64, u Update) (changes int, ok bool) {
	ok = true
	u.problems = problemsOf(u.Rejected)
	changes = f.change(u.Type, func(t *Table) (Update, bool) {
		ok = t.core.streams[f.stream].claims == claims
		return u, ok
	})
	return changes, ok
}
