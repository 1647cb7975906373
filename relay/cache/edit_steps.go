package cache

import (
	"maps"
	"slices"
)

// A client may name tens of thousands of resources at once. An edit of that many takes
// milliseconds, in which all other clients of the key would wait for the lock of the table. So it
// is made in steps of a few names, between which other goroutines get the lock. Meanwhile the
// subscription is private to the client: its key has a step, so that no other client joins an
// incomplete subscription. The client does not see it, either, because it asks for changes only
// after the edit. The control plane may be asked for some of the names before the others.

// namesPerStep is how many names are edited or examined with the table locked. That usually takes
// far less than a millisecond, and a few when maps grow.
const namesPerStep = 256

// edit makes an edit whose names are canonical. If there is no room for them, names of another
// client may yield, and the edit is tried again.
func (t *Table) edit(w *Watcher, e Edit) (done Edited) {
	for range yieldTries {
		if done = t.tryEdit(w, e); done.Over == nil || !t.yield(done.Over) {
			break
		}
	}
	return done
}

// tryEdit makes an edit, or none if there is no room for its names.
func (t *Table) tryEdit(w *Watcher, e Edit) (done Edited) {
	step := t.group.cache.step
	t.mu.Lock()
	old := w.sub
	shared := old != nil && old.count > 1
	if len(e.Add)+len(e.Remove) <= step && !(shared && len(old.names) > step) {
		done = t.core.edit(w, e)
		t.unlockAndWake()
		return done
	}
	t.mu.Unlock()
	done, key := t.core.diff(old, e)
	if old != nil && key == old.key {
		return done
	}
	st := steps{table: t}
	if over := st.reserve(key, done.Added, e); over != nil {
		return Edited{Over: over}
	}
	defer st.release()
	if t.move(w, key) {
		return done
	}
	if st.own(old) {
		st.walk(key, done)
		st.finish(w, key)
		return done
	}
	// A shared subscription does not change. The client leaves it once its own is complete, so that
	// the interest in no name ends in between.
	whole := done
	if old != nil {
		names := maps.Clone(old.names)
		for _, n := range done.Removed {
			delete(names, n)
		}
		whole = Edited{Added: slices.AppendSeq(slices.Clone(done.Added), maps.Keys(names)), spelled: done.spelled}
	}
	st.begin()
	st.walk(key, whole)
	st.finish(w, key)
	return done
}

// move makes w share the subscription with a key, if there is one.
func (t *Table) move(w *Watcher, key subKey) bool {
	t.mu.Lock()
	defer t.unlockAndWake()
	next := t.core.subs[key]
	if next != nil {
		t.core.relink(w, next)
	}
	return next != nil
}

// relink replaces the subscription of w, if it has one, by s.
func (t *core) relink(w *Watcher, s *Subscription) {
	old := w.sub
	if old == s {
		return
	}
	if old != nil {
		old.unlink(w)
	}
	s.link(w)
	if old != nil {
		t.dropIfUnused(old)
	}
}

// steps is an edit in steps of a subscription with at most one client.
type steps struct {
	table *Table
	sub   *Subscription
	left  []int // what it will still add to the names of each stream, in bytes; nil if unbounded
}

// reserve is over, and counts what the edit will add from now on.
func (st *steps) reserve(key subKey, added []string, e Edit) *NamesOver {
	t := st.table
	if e.Unbounded || len(added) == 0 || !t.core.bounded() {
		return nil
	}
	more := make([]int, len(t.core.streams))
	for names := range slices.Chunk(added, t.group.cache.step) {
		t.mu.RLock()
		t.core.sizes(more, names, e.spelled)
		t.mu.RUnlock()
	}
	t.mu.Lock()
	defer t.unlockAndSignal()
	if over := t.core.exceed(more, key.size()); over != nil {
		return over
	}
	if t.core.reserved == nil {
		t.core.reserved = make([]int, len(t.core.streams))
	}
	for i, n := range more {
		t.core.reserved[i] += n
	}
	st.left = more
	return nil
}

// release ends the rest of the reservation.
func (st *steps) release() {
	if st.left == nil {
		return
	}
	st.table.mu.Lock()
	defer st.table.mu.Unlock()
	for i, n := range st.left {
		st.table.core.reserved[i] -= n
	}
}

// own makes the edit work on a subscription with a single client, so that no other client joins it.
func (st *steps) own(sub *Subscription) bool {
	if sub == nil {
		return false
	}
	t := st.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if sub.count > 1 {
		return false
	}
	t.core.detach(sub)
	st.sub = sub
	return true
}

// begin makes the edit work on a new, empty subscription without clients.
func (st *steps) begin() {
	t := st.table
	t.mu.Lock()
	defer t.mu.Unlock()
	st.sub = t.core.newSubscription(subKey{step: t.core.nextID()}, nil, Edited{})
}

// walk makes the changes, step by step. A wildcard is joined before them, and left by finish: some
// control planes accept names after a wildcard, but no wildcard after names.
func (st *steps) walk(final subKey, done Edited) {
	per := st.table.group.cache.step
	if final.wildcard {
		st.step(true, Edited{})
	}
	for names := range slices.Chunk(done.Removed, per) {
		st.step(final.wildcard, Edited{Removed: names})
	}
	for names := range slices.Chunk(done.Added, per) {
		st.step(final.wildcard, Edited{Added: names, spelled: done.spelled})
	}
}

func (st *steps) step(wildcard bool, done Edited) {
	t := st.table
	t.mu.Lock()
	defer t.mu.Unlock() // the control plane is asked after the last step
	key := st.sub.key
	key.wildcard, key.step = key.wildcard || wildcard, t.core.nextID()
	for _, n := range done.Removed {
		key.drop(&t.seeds, n)
	}
	for _, n := range done.Added {
		key.add(&t.seeds, n)
	}
	for i := range st.left {
		st.left[i] += t.core.demand.Stream(i).Size()
		t.core.reserved[i] += t.core.demand.Stream(i).Size()
	}
	t.core.askAgain(done.Added)
	t.core.reshape(st.sub, key, done)
	for i := range st.left { // what has been added is counted there
		st.left[i] -= t.core.demand.Stream(i).Size()
		t.core.reserved[i] -= t.core.demand.Stream(i).Size()
	}
	if t.core.pendingRestore != nil {
		t.core.recheckHead(t.core.woken)
	}
}

// finish gives w the subscription, or another one that has become equal meanwhile.
func (st *steps) finish(w *Watcher, key subKey) {
	t := st.table
	t.mu.Lock()
	defer t.unlockAndWake()
	next := t.core.subs[key]
	if next == nil {
		t.core.reshape(st.sub, key, Edited{})
		t.core.relink(w, st.sub)
		return
	}
	begun := w.sub != st.sub // by begin, and w never had it
	t.core.relink(w, next)
	if begun {
		t.core.dropIfUnused(st.sub)
	}
}

// detach changes the key of s so that no client joins it.
func (t *core) detach(s *Subscription) {
	delete(t.subs, s.key)
	s.key.step = t.nextID()
	t.subs[s.key] = s
}

// retire releases the names of s, which has no clients any more, later and in steps.
func (t *core) retire(s *Subscription) {
	t.detach(s)
	t.retired = append(t.retired, s)
}

// retire releases the names of subscriptions, in steps. t.mu must not be held.
func (t *Table) retire(subs []*Subscription) {
	per := t.group.cache.step
	for _, s := range subs {
		st := steps{table: t, sub: s}
		for names := slices.Collect(maps.Keys(s.names)); len(names) > per; names = names[per:] {
			st.step(false, Edited{Removed: names[:per]})
		}
		t.mu.Lock()
		t.core.dropIfUnused(s)
		t.unlockAndSignal()
	}
}
