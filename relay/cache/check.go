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
	c := checker{table: t, wrong: t.store.Check()}
	c.entries()
	c.globs()
	c.demand()
	if a := t.tierHead; a != nil && a.now != t.store.All() {
		c.complain("the digest that is compared with the tier's is %s, the content's is %s", a.now.Hex(), t.store.All().Hex())
	}
	for key, s := range t.subs {
		c.subscription(key, s)
	}
	return c.wrong
}

// entries checks who is a member of the wildcard set, and the sum of bytes besides the store.
func (c *checker) entries() {
	t := c.table
	for name, e := range t.store.Entries() {
		if e.Member != (e.CopyFrom(t.wild.stream) != nil) {
			c.complain("%q is a member of the wildcard set: %t", name, e.Member)
		}
	}
	bytes := c.resourceErrors() + int64(len(t.extra.fields))
	for name := range t.interests {
		bytes += interestSize(name)
	}
	for name := range t.errored.names {
		bytes += erroredSize(name)
	}
	if bytes != t.bytes {
		c.complain("%d bytes, but %d are counted", bytes, t.bytes)
	}
}

// resourceErrors checks the resource errors.
func (c *checker) resourceErrors() (bytes int64) {
	t := c.table
	last, n, locals := t.store.Notes()+1, 0, 0
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
			if t.store.Get(name) == nil {
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
		if g := t.store.Glob(name); g != nil {
			waits = waits || g.Live() == 0
		}
		if want := waits && t.store.Get(name) == nil && !t.failedLocked(name); listed != want {
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
	for name := range stream.guard.names {
		if e := t.store.Get(name); e == nil || e.CopyFrom(i) == nil {
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
	if s.gen > t.store.Gen() {
		c.complain("a subscription is at generation %d, the table at %d", s.gen, t.store.Gen())
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
		if e := t.store.Get(n); e != nil && e.Named > s.gen {
			c.complain("%q changed at generation %d, but a subscription to it is at %d", n, e.Named, s.gen)
		}
	}
}
