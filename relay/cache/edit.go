package cache

import (
	"hash/maphash"
	"maps"
	"slices"

	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// Edit is a change of a client's interest.
type Edit struct {
	// Add and Remove are names as the client spells them. Add is applied first (B23).
	Add, Remove []string
	// AddWildcard and RemoveWildcard join and leave "*".
	AddWildcard, RemoveWildcard bool
	// Unbounded says that the names may exceed [OriginStream.MaxNames]: they are those of another
	// node, which has admitted its clients itself.
	Unbounded bool

	spelled map[string]string // of names in Add, which are canonical by then
}

// canonical returns e with all names in their canonical form.
func (e Edit) canonical() Edit {
	e.Add, e.spelled = canonicalNames(e.Add)
	e.Remove = resource.CanonicalNames(e.Remove)
	return e
}

// Edited is the effect of an Edit. All names are canonical.
type Edited struct {
	// Added are the names that the client did not ask for before.
	Added []string
	// Removed are the names that it asked for before.
	Removed []string
	// Wildcard says that "*" was joined, Left that it was left.
	Wildcard, Left bool
	// Over is why the edit was not made; nil if it was.
	Over *NamesOver

	spelled map[string]string // see Edit
}

// Adopt sets the interest of w to names, plus the wildcard if wildcard or names says so, provided
// that w or another client already has exactly that interest; then ok is true. That is the case for
// nearly all requests of a fleet, and costs no more than hashing the list. For a client that had no
// interest before, done omits the names.
func (t *Table) Adopt(w *Watcher, wildcard bool, names resource.NameList) (done Edited, ok bool) {
	// Usually not even the order differs.
	list := maphash.Bytes(t.seeds[0], names.Bytes())
	if !wildcard && names.Len() > 0 && list == w.list {
		return done, true
	}
	key, ok := t.seeds.listKey(wildcard, names)
	if !ok {
		return done, false
	}
	t.mu.RLock()
	sub := w.sub
	t.mu.RUnlock()
	switch {
	case sub == nil:
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.core.join(w, key) {
			return done, false
		}
		done.Wildcard = key.wildcard
	case sub.key != key:
		return done, false
	}
	if !wildcard {
		w.list = list
	}
	return done, true
}

// Replace sets the interest of w to names, and to the wildcard if wildcard: the SotW form of a
// subscription (B17). Repeating the present interest costs no more than hashing the names.
func (t *Table) Replace(w *Watcher, wildcard bool, names []string) Edited {
	e := Edit{Add: names, AddWildcard: wildcard, RemoveWildcard: !wildcard}.canonical()
	key := t.seeds.key(wildcard, e.Add)
	t.mu.RLock()
	sub := w.sub
	t.mu.RUnlock()
	if sub != nil && sub.key == key {
		return Edited{}
	}
	w.list = 0
	e.Remove = sub.except(e.Add)
	return t.edit(w, e)
}

// Omitted returns what [Table.Replace] with the same names would remove, including "*" for the
// wildcard, and changes nothing. All names are canonical.
func (t *Table) Omitted(w *Watcher, wildcard bool, names []string) (omitted []string) {
	names, _ = canonicalNames(names)
	t.mu.RLock()
	sub := w.sub
	t.mu.RUnlock()
	if sub == nil || sub.key == t.seeds.key(wildcard, names) {
		return nil
	}
	omitted = sub.except(names)
	if sub.key.wildcard && !wildcard {
		omitted = append(omitted, everything)
	}
	return omitted
}

// Edit changes the interest of w by a difference: the delta form of a subscription.
func (t *Table) Edit(w *Watcher, e Edit) Edited {
	w.list = 0
	return t.edit(w, e.canonical())
}

// unlockAndWake is unlockAndSignal, and wakes the subscriptions in t.woken.
func (t *Table) unlockAndWake() {
	if t.core.pendingRestore != nil {
		t.core.recheckHead(t.core.woken) // the edit may have restored something
	}
	woken, near := t.core.takeWoken(), t.core.nearing
	t.core.nearing = nil
	t.unlockAndSignal()
	if len(woken) > 0 {
		t.group.cache.cfg.Wake(woken)
	}
	if near != nil {
		t.group.cache.cfg.NamesNear(*near)
	}
}

// Leave ends w's interest in the table.
func (t *Table) Leave(w *Watcher) {
	w.list = 0
	t.mu.Lock()
	if s := w.sub; s != nil {
		s.unlink(w)
		t.core.dropIfUnused(s)
	}
	t.unlockAndSignal()
}

// unlockAndSignal unlocks t.mu and signals the feeds that have to ask for more or less.
func (t *Table) unlockAndSignal() {
	news := t.core.demand.Changed()
	retired := t.core.retired
	t.core.retired = nil
	t.mu.Unlock()
	if news != 0 {
		t.group.signalDemand(news)
	}
	t.retire(retired)
}

// join lets w, which has no interest yet, share an existing subscription: most clients of a
// key have the same interest.
func (t *core) join(w *Watcher, key subKey) bool {
	s := t.subs[key]
	if s != nil {
		s.link(w)
	}
	return s != nil
}

func (t *core) edit(w *Watcher, e Edit) (done Edited) {
	old := w.sub
	starts := old == nil && len(e.Remove) == 0 && !(e.RemoveWildcard && e.AddWildcard)
	if starts && t.join(w, t.seeds.key(e.AddWildcard, e.Add)) {
		return Edited{Added: slices.Clone(e.Add), Wildcard: e.AddWildcard}
	}
	done, key := t.diff(old, e)
	if !e.Unbounded {
		if over := t.over(key, done.Added, e.spelled); over != nil {
			return Edited{Over: over}
		}
	}
	t.askAgain(done.Added)
	if old != nil && key == old.key {
		return done
	}

	next := t.subs[key]
	switch {
	case next != nil:
	case old != nil && old.count == 1:
		t.reshape(old, key, done)
		return done
	default:
		var has map[string]struct{}
		if old != nil {
			has = old.names
		}
		next = t.newSubscription(key, has, done)
	}
	if old != nil {
		old.unlink(w)
	}
	next.link(w)
	if old != nil {
		t.dropIfUnused(old)
	}
	return done
}

// diff returns what e changes for a client of old, which may be nil, and the resulting key. The
// client itself may call it without a lock, because only the client changes its subscription.
func (t *core) diff(old *Subscription, e Edit) (done Edited, key subKey) {
	done.spelled = e.spelled
	var has map[string]struct{}
	if old != nil {
		key, has = old.key, old.names
	}
	final := make(map[string]bool, len(e.Add)+len(e.Remove)) // name → asked for, for names that change
	for _, n := range e.Add {
		if _, ok := has[n]; !ok {
			final[n] = true
		}
	}
	for _, n := range e.Remove {
		if _, ok := has[n]; ok {
			final[n] = false
		} else {
			delete(final, n)
		}
	}
	for n, wanted := range final {
		if wanted {
			key.add(&t.seeds, n)
			done.Added = append(done.Added, n)
		} else {
			key.drop(&t.seeds, n)
			done.Removed = append(done.Removed, n)
		}
	}
	wild := (key.wildcard || e.AddWildcard) && !e.RemoveWildcard
	done.Wildcard, done.Left = wild && !key.wildcard, key.wildcard && !wild
	key.wildcard = wild
	return done, key
}

// reshape changes s in place for its only client. Copying a large set for each name that a client adds
// would be quadratic.
func (t *core) reshape(s *Subscription, key subKey, done Edited) {
	delete(t.subs, s.key)
	wasWild := s.key.wildcard
	for _, n := range done.Removed {
		delete(s.names, n)
		t.dropInterest(s, n)
	}
	for _, n := range done.Added {
		s.names[n] = struct{}{}
		t.addInterest(s, n, done.spelled[n])
	}
	t.deny(done.Added)
	s.countGlobs(&done)
	if key.wildcard && !wasWild {
		t.addWildcardInterest(s)
	} else if !key.wildcard && wasWild {
		t.dropWildcardInterest(s)
	}
	s.key, s.id = key, t.nextID()
	t.place(s)
	s.private = t.asksUncacheable(s)
	t.adjust(s, &done)
	t.subs[key] = s
}

// adjust is recount for changed names.
func (t *core) adjust(s *Subscription, done *Edited) {
	if t.store.Aliased() || done.changesGlobs() {
		t.adjustManyNamed(s, done)
		return
	}
	counts := func(e *table.Entry) bool {
		if e == nil || e.Res == nil {
			return false
		}
		g := e.Glob()
		if g == nil || s.globs == 0 {
			return true
		}
		_, covered := s.names[g.Name] // a covered entry is and stays counted
		return !covered
	}
	for _, n := range done.Removed {
		if e := t.store.Get(n); counts(e) {
			s.uncount(e.Share(), e.Res.Member())
		}
	}
	for _, n := range done.Added {
		if e := t.store.Get(n); counts(e) {
			s.recount(e.Share(), e.Res.Member())
		}
	}
}

// adjustManyNamed is adjust for resources with several names: it examines all that have
// a changed one.
func (t *core) adjustManyNamed(s *Subscription, done *Edited) {
	added := make(map[string]bool, len(done.Added)+len(done.Removed)) // false: removed
	for _, n := range done.Removed {
		added[n] = false
	}
	for _, n := range done.Added {
		added[n] = true
	}
	had := func(name string) bool {
		if now, changed := added[name]; changed {
			return !now
		}
		_, has := s.names[name]
		return has
	}
	seen := make(map[*table.Entry]struct{})
	for n := range added {
		t.store.EachOf(n, func(e *table.Entry) {
			if _, twice := seen[e]; twice || e.Res == nil {
				return
			}
			seen[e] = struct{}{}
			switch before, after := slices.ContainsFunc(namesOf(e.Res), had), s.asksFor(e); {
			case before && !after:
				s.uncount(e.Share(), e.Res.Member())
			case after && !before:
				s.recount(e.Share(), e.Res.Member())
			}
		})
	}
}

func (t *core) newSubscription(key subKey, base map[string]struct{}, done Edited) *Subscription {
	s := &Subscription{table: t.shell, key: key, id: t.nextID(), names: maps.Clone(base)}
	if s.names == nil {
		s.names = make(map[string]struct{}, len(done.Added))
	}
	for _, n := range done.Removed {
		delete(s.names, n)
	}
	for _, n := range done.Added {
		s.names[n] = struct{}{}
	}
	for n := range s.names {
		t.addInterest(s, n, done.spelled[n])
		if resource.IsGlob(n) {
			s.globs++
		}
	}
	t.deny(done.Added)
	if key.wildcard {
		t.addWildcardInterest(s)
	}
	t.place(s)
	t.recount(s)
	s.private = t.asksUncacheable(s)
	t.subs[key] = s
	return s
}

func (t *core) dropIfUnused(s *Subscription) {
	if s.count > 0 {
		return
	}
	delete(t.subs, s.key)
	delete(t.waiting, s)
	delete(t.tierHead.waiting, s)
	if len(s.names) > t.group.cache.step {
		t.retire(s)
		return
	}
	for n := range s.names {
		t.dropInterest(s, n)
	}
	if s.key.wildcard {
		t.dropWildcardInterest(s)
	}
}
