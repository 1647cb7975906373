package cache

import "xdsrelay/relay/resource"

// A new delta stream begins with claims, the versions of what there is, and the answer
// leaves out what they have right (C8). What was kept, or what other nodes hold, may take
// the place of that content before the answer comes, while the control plane or the owner
// of the key is slow. Such an answer means something else than what the table holds.

// Claims returns a number that stands for what the leg holds of a type, as far as claims are
// concerned: another one once restored content has taken the place of what there was, or
// has been added to a whole set. It is taken before the claims are made.
func (f *Feed) Claims(typ *resource.Type) uint64 {
	t := f.group.lookup(typ)
	if t == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.legs[f.leg].claims
}

// ApplyAnswer is [Feed.Apply] of an answer to claims. It stores nothing and returns false
// if the leg holds something else by now: the control plane has to be asked again, with
// other claims. After the end of the feed, and of a type that nobody has asked for, nothing is
// left to be asked, and it returns true.
func (f *Feed) ApplyAnswer(claims uint64, u Update) (changes int, ok bool) {
	ok = true
	u.problems = problemsOf(u.Rejected)
	changes = f.change(u.Type, func(t *Table) (Update, bool) {
		ok = t.legs[f.leg].claims == claims
		return u, ok
	})
	return changes, ok
}
