package cache

import (
	"fmt"
	"slices"

	"xdsrelay/relay/resource"
)

// Check recomputes from scratch what the tables maintain incrementally. It returns a sentence for
// each difference, and nothing if all is well. The cost is proportional to the whole content.
func (c *Cache) Check() []string {
	var wrong []string
	for _, g := range append(c.Groups(), c.privateGroups()...) {
		for _, t := range g.Tables() {
			for _, w := range t.check() {
				wrong = append(wrong, fmt.Sprintf("key %q, type %s: %s", g.Key, t.Type.URL, w))
			}
		}
	}
	return wrong
}

// checker collects what is wrong with one table, whose mu is held.
type checker struct {
	table *Table
	wrong []string
}

func (c *checker) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (t *Table) check() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := checker{table: t}
	c.entries()
	c.globs()
	c.lists()
	c.demand()
	if a := t.tierHead; a != nil && a.now != t.allLocked() {
		c.complain("the digest that is compared with the tier's is %s, the content's is %s", a.now.Hex(), t.allLocked().Hex())
	}
	for key, s := range t.subs {
		c.subscription(key, s)
	}
	return c.wrong
}

// entries checks the sums over all entries, and the index of aliases.
func (c *checker) entries() {
	t := c.table
	var live, dead, members, aliased int
	var bytes int64
	var digest resource.Digest
	for name, e := range t.entries {
		bytes += entrySize(name)
		if e.gen > t.gen || e.name != name {
			c.complain("%q (%q) changed at generation %d, the table's newest is %d", name, e.name, e.gen, t.gen)
		}
		if e.last != nil {
			bytes += int64(e.last.Size())
		}
		also := slices.Clone(e.former)
		if e.res == nil {
			dead++
		} else {
			live++
			bytes += int64(e.res.Size()) + e.secondSize()
			also = append(also, e.res.Aliases...)
		}
		if e.member {
			members++
			digest = digest.Add(e.res.Member())
		}
		if e.member != (e.copyFrom(t.wild.stream) != nil) || max(e.named, e.wild) > e.gen {
			c.complain("%q is a member of the wildcard set: %t", name, e.member)
		}
		slices.Sort(also)
		for _, a := range slices.Compact(also) {
			aliased++
			if !slices.Contains(t.aliases[a], e) {
				c.complain("%q is not found by its alias %q", name, a)
			}
		}
	}
	for _, es := range t.aliases {
		aliased -= len(es)
	}
	if aliased != 0 {
		c.complain("the index of aliases has %d entries too many", -aliased)
	}
	for name := range t.interests {
		bytes += interestSize(name)
	}
	for name := range t.errored.names {
		bytes += erroredSize(name)
	}
	bytes += c.notes()
	if live != t.live || dead != t.tombstones.len || live+dead != t.changes.len {
		c.complain("%d resources and %d tombstones, but %d, %d and %d are counted", live, dead, t.live, t.tombstones.len, t.changes.len)
	}
	if digest != t.digest || members != t.members {
		c.complain("the digest does not fit the resources, or %d members are not %d", members, t.members)
	}
	if bytes != t.bytes {
		c.complain("%d bytes, but %d are counted", bytes, t.bytes)
	}
}

// notes checks what is sent without a change, and returns its bytes.
func (c *checker) notes() int64 {
	t := c.table
	last, n := t.notes+1, 0
	for e := t.heartbeats.newest; e != nil; e = e.ttlState.heartbeats.next {
		if n++; e.ttlState.noted >= last || !e.ttlState.listed || t.entries[e.name] != e || e.ttlState.ttlChangedAt > e.ttlState.noted {
			c.complain("%q is out of place in the list of heartbeats", e.name)
		}
		last = e.ttlState.noted
	}
	if n != t.heartbeats.len {
		c.complain("the list of heartbeats holds %d entries, not %d", n, t.heartbeats.len)
	}
	return c.ttlStates() + c.resourceErrors() + int64(len(t.extra.fields))
}

// ttlStates checks the TTL state of all copies.
func (c *checker) ttlStates() (bytes int64) {
	t, ending := c.table, 0
	for name, e := range t.entries {
		for _, h := range e.copies() {
			l := h.ttlState
			if l == nil {
				continue
			}
			bytes += ttlStateSize
			ends := !l.expires.IsZero()
			if ends {
				ending++
			}
			if l.entry != e || ends != (l.at >= 0) || ends && t.deadlines[l.at] != l || l.listed && l != e.ttlState {
				c.complain("%q expires at %v, but is number %d of those that do", name, l.expires, l.at)
			}
		}
	}
	if ending != len(t.deadlines) {
		c.complain("%d lives end, but %d are counted", ending, len(t.deadlines))
	}
	return bytes
}

// resourceErrors checks the resource errors.
func (c *checker) resourceErrors() (bytes int64) {
	t := c.table
	last, n, locals := t.notes+1, 0, 0
	for r := t.errorsByNote.newest; r != nil; r = r.place.next {
		if n++; r.note >= last || !slices.Contains(t.resourceErrors[r.key], r) || !t.coveredLocked(r.stream, r.key, nil) {
			c.complain("a remark on %q is out of place", r.about.Name)
		}
		if r.local {
			locals++
		}
		last = r.note
		bytes += r.size()
	}
	if n != t.errorsByNote.len || locals != t.localErrors {
		c.complain("%d remarks, %d local, but %d and %d are counted", n, locals, t.errorsByNote.len, t.localErrors)
	}
	return bytes
}

// lists checks the order of changes, and that both lists are complete.
func (c *checker) lists() {
	t := c.table
	last, n := t.gen+1, 0
	for e := t.changes.newest; e != nil; e = e.changes.next {
		if n++; e.gen >= last || e.first > e.gen || t.entries[e.name] != e {
			c.complain("%q is out of place in the list of changes", e.name)
		}
		last = e.gen
	}
	if n != t.changes.len {
		c.complain("the list of changes holds %d entries, not %d", n, t.changes.len)
	}
	n = 0
	for e := t.tombstones.newest; e != nil; e = e.tombstones.next {
		if n++; e.res != nil || t.entries[e.name] != e {
			c.complain("%q is in the list of tombstones", e.name)
		}
	}
	if n != t.tombstones.len {
		c.complain("the list of tombstones holds %d entries, not %d", n, t.tombstones.len)
	}
}

// demand checks the index from names to subscriptions.
func (c *checker) demand() {
	t := c.table
	one := func(name string, w *interest) {
		for s := range w.subs.all() {
			_, named := s.names[name]
			if t.subs[s.key] != s || w == &t.wild && !s.key.wildcard || w != &t.wild && !named {
				c.complain("%q is wanted by a subscription that is gone or does not hold it", name)
			}
		}
		if w.seq > t.seq || w.subs.len() > 0 != w.expires.IsZero() && w.seq > 0 {
			c.complain("%q is wanted by %d subscriptions, and lingers until %v", name, w.subs.len(), w.expires)
		}
	}
	lingering, shed := 0, 0
	for name, w := range t.interests {
		one(name, w)
		if !w.expires.IsZero() {
			lingering++
		}
		if w.shed {
			shed++
		}
		if w.stream == Nobody {
			if t.entries[name] == nil {
				c.complain("%q is served by nobody, and does not count as absent", name)
			}
			continue
		}
		stream := &t.streams[w.stream]
		if _, news := stream.dirty[name]; !news && !w.asked && !w.shed {
			c.complain("%q is wanted, but nobody will ask for it", name)
		}
		_, listed := stream.unanswered[name]
		listed = listed && (!stream.outdated || t.openLocked(w, name))
		waits := w.seq > stream.answered
		if g := t.globs[name]; g != nil {
			waits = waits || g.live == 0
		}
		if want := waits && t.entries[name] == nil && !t.failedLocked(name); listed != want {
			c.complain("%q waits for an answer: %t, but it is listed so: %t", name, want, listed)
		}
	}
	if lingering != t.lingering {
		c.complain("%d names linger, and %d are counted", lingering, t.lingering)
	}
	if shed != t.shed {
		c.complain("%d names were shed, and %d are counted", shed, t.shed)
	}
	one("*", &t.wild)
	for i := range t.streams {
		c.stream(i)
	}
	for name, key := range t.uncacheable {
		if t.entries[key] == nil {
			c.complain("%q must not be kept, but there is no %q", name, key)
		}
	}
	for s := range t.waiting {
		if t.subs[s.key] != s || len(s.waits) == 0 {
			c.complain("a subscription that is gone or needs none waits for an answer")
		}
	}
}

// stream checks what was asked on a stream.
func (c *checker) stream(i int) {
	t, stream, wanted := c.table, &c.table.streams[i], 0
	for _, w := range t.interests {
		if w.stream == i {
			wanted++
		}
	}
	var copies typeStreamState
	for _, e := range t.entries {
		if h := e.copyFrom(i); h != nil {
			copies.count(nil, h.res)
		}
	}
	if copies.live != stream.live || copies.digest != stream.digest {
		c.complain("leg %d holds %d resources, but %d are counted, or their digest is off", i, copies.live, stream.live)
	}
	for name := range stream.guard.names {
		if e := t.entries[name]; e == nil || e.copyFrom(i) == nil {
			c.complain("the removal of %q is held back, but leg %d does not hold it", name, i)
		}
	}
	for name, w := range stream.unanswered {
		if t.interests[name] != w {
			c.complain("%q waits for an answer, but is not wanted", name)
		}
	}
	wild := t.wild.stream == i && t.wild.demanded()
	if wild {
		wanted++
	}
	if wild != stream.askedAll && !stream.dirtyAll {
		c.complain("the wildcard is wanted %t and asked for %t, and that will not change", wild, stream.askedAll)
	}
	if wanted != stream.wanted {
		c.complain("%d names are wanted of leg %d, but %d are counted", wanted, i, stream.wanted)
	}
	if stream.answered > stream.asked || stream.asked > t.seq {
		c.complain("leg %d: answered %d, asked %d, wanted %d", i, stream.answered, stream.asked, t.seq)
	}
}

// subscription checks a subscription, which is filed under key.
func (c *checker) subscription(key subKey, s *Subscription) {
	t := c.table
	if t.asksUncacheableLocked(s) && !s.private {
		c.complain("a subscription asks for what must not be kept, and its clients do not know")
	}
	sum, globs := subKey{wildcard: s.key.wildcard, step: s.key.step}, 0
	for n := range s.names {
		sum.add(&t.seeds, n)
		if resource.IsGlob(n) {
			globs++
		}
		if w := t.interests[n]; w == nil {
			c.complain("%q is subscribed but not wanted", n)
		} else if !w.subs.has(s) {
			c.complain("the subscription to %q is not in the index", n)
		}
	}
	if t.wild.subs.has(s) != s.key.wildcard {
		c.complain("a subscription has the wildcard %t, which the index denies", s.key.wildcard)
	}
	if globs != s.globs {
		c.complain("a subscription has %d globs, but counts %d", globs, s.globs)
	}
	if sum != key || s.key != key {
		c.complain("a subscription is filed under another content")
	}
	count := 0
	for w := s.watchers; w != nil; w = w.next {
		if count++; w.sub != s {
			c.complain("a watcher belongs to another subscription")
		}
	}
	if count != s.count || count == 0 && s.key.step == 0 {
		c.complain("a subscription has %d watchers, but counts %d", count, s.count)
	}
	if s.gen > t.gen {
		c.complain("a subscription is at generation %d, the table at %d", s.gen, t.gen)
	}
	again := Subscription{key: s.key, names: s.names, globs: s.globs}
	t.recountLocked(&again)
	if again.live != s.live || again.digest != s.digest || again.members != s.members {
		c.complain("a subscription sees %d resources, but counts %d, or its digest is off", again.live, s.live)
	}
	missing := 0
	for n := range s.names {
		if t.missesNameLocked(n) {
			missing++
		}
	}
	if s.hasPlainNamesLocked() && missing != len(s.names)-s.live {
		c.complain("of a subscription to %d names %d are missing, but %d resources are counted", len(s.names), missing, s.live)
	}
	for n := range s.names {
		if e := t.entries[n]; e != nil && e.named > s.gen {
			c.complain("%q changed at generation %d, but a subscription to it is at %d", n, e.named, s.gen)
		}
	}
}
