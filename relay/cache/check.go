package cache

import (
	"fmt"
	"slices"

	"xdsrelay/relay/cache/table"
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
	table *core
	wrong []string
}

func (c *checker) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (t *Table) check() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := checker{table: &t.core, wrong: slices.Concat(t.core.store.Check(), t.core.demand.Check(), t.core.errored.Check(), t.core.notes.Check(t.core.store.Notes(), func(stream int, name string) bool {
		return t.core.covered(stream, name, nil)
	}))}
	c.entries()
	c.globs()
	c.demand()
	c.gates()
	c.orders()
	if a := t.core.tierHead.Comparison; a != nil && a.Now() != t.core.store.All() {
		c.complain("the digest that is compared with the tier's is %s, the content's is %s", a.Now().Hex(), t.core.store.All().Hex())
	}
	for key, s := range t.core.subs {
		c.subscription(key, s)
	}
	return c.wrong
}

// entries checks who is a member of the wildcard set.
func (c *checker) entries() {
	t := c.table
	for name, e := range t.store.Entries() {
		if e.Member != (e.CopyFrom(t.demand.Wildcard().Stream()) != nil) {
			c.complain("%q is a member of the wildcard set: %t", name, e.Member)
		}
	}
}

// orders checks that an order has no entry twice: a decoder relies on that.
func (c *checker) orders() {
	for i := range c.table.streams {
		seen := make(map[*table.Entry]struct{})
		for _, e := range c.table.streams[i].order {
			if _, twice := seen[e]; twice {
				c.complain("%q is twice in the order of stream %d", e.Name, i)
			}
			seen[e] = struct{}{}
		}
	}
}

// demand checks the index from names to subscriptions, and what waits for an answer.
func (c *checker) demand() {
	t := c.table
	one := func(name string, w *interest) {
		for s := range w.Subscribers().All() {
			_, named := s.names[name]
			if t.subs[s.key] != s || w == t.demand.Wildcard() && !s.key.wildcard || w != t.demand.Wildcard() && !named {
				c.complain("%q is wanted by a subscription that is gone or does not hold it", name)
			}
		}
	}
	for name, w := range t.demand.All() {
		one(name, w)
		if w.Stream() == Nobody {
			if t.store.Get(name) == nil {
				c.complain("no control plane serves %q, and it does not count as absent", name)
			}
			continue
		}
		waits := !t.demand.Answered(w)
		if g := t.store.Glob(name); g != nil {
			waits = waits || g.Live() == 0
		}
		if want, open := waits && t.unheard(name), t.demand.Open(w, name); open != want {
			c.complain("%q waits for an answer: %t, but it is listed so: %t", name, want, open)
		}
	}
	one("*", t.demand.Wildcard())
	for i := range t.streams {
		for name := range t.streams[i].guard.Names() {
			if res, _ := t.sent(i, name); res == nil {
				c.complain("the removal of %q is held back, but leg %d does not hold it", name, i)
			}
		}
	}
	for s := range t.waiting {
		if t.subs[s.key] != s || len(s.waits) == 0 {
			c.complain("a subscription that is gone or needs none waits for an answer")
		}
	}
}

// subscription checks a subscription, which is filed under key.
func (c *checker) subscription(key subKey, s *Subscription) {
	t := c.table
	if t.asksUncacheable(s) && !s.private {
		c.complain("a subscription asks for what must not be kept, and its clients do not know")
	}
	sum, globs := subKey{wildcard: s.key.wildcard, step: s.key.step}, 0
	for n := range s.names {
		sum.add(&t.seeds, n)
		if resource.IsGlob(n) {
			globs++
		}
		if w := t.demand.Get(n); w == nil {
			c.complain("%q is subscribed but not wanted", n)
		} else if !w.Subscribers().Has(s) {
			c.complain("the subscription to %q is not in the index", n)
		}
	}
	if t.demand.Wildcard().Subscribers().Has(s) != s.key.wildcard {
		c.complain("a subscription has the wildcard %t, which the index denies", s.key.wildcard)
	}
	if globs != s.globs {
		c.complain("a subscription has %d globs, but counts %d", globs, s.globs)
	}
	if sum != key || s.key != key {
		c.complain("a subscription is filed under another content")
	}
	count := 0
	for _, list := range [...]*Watcher{s.watchers, s.paced} {
		for w := list; w != nil; w = w.next {
			if count++; w.sub != s {
				c.complain("a watcher belongs to another subscription")
			}
		}
	}
	if count != s.count || count == 0 && s.key.step == 0 {
		c.complain("a subscription has %d watchers, but counts %d", count, s.count)
	}
	if s.gen > t.store.Gen() {
		c.complain("a subscription is at generation %d, the table at %d", s.gen, t.store.Gen())
	}
	again := Subscription{key: s.key, names: s.names, globs: s.globs}
	t.recount(&again)
	if again.live != s.live || again.digest != s.digest || again.members != s.members {
		c.complain("a subscription sees %d resources, but counts %d, or its digest is off", again.live, s.live)
	}
	missing := 0
	for n := range s.names {
		if t.missesName(n) {
			missing++
		}
	}
	if s.hasPlainNames() && missing != len(s.names)-s.live {
		c.complain("of a subscription to %d names %d are missing, but %d resources are counted", len(s.names), missing, s.live)
	}
	for n := range s.names {
		if e := t.store.Get(n); e != nil && e.Named > s.gen {
			c.complain("%q changed at generation %d, but a subscription to it is at %d", n, e.Named, s.gen)
		}
	}
}
