package rollouts

import (
	"slices"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// Most keys have no rollout. A key about which nothing was ever decided rests: the controller keeps its rule,
// and in a tier what orders the messages about it, and looks at it only when it wakes. That is when something is
// pending, when a request or an order names it, when its role changes, and when another node begins to follow.

// rule is what the keys of a rule of the aggregation have in common. It is not changed.
type rule struct {
	name     string
	policy   *rollout.Policy // for the next revision
	traits   func(*fanout.Affected) Traits
	types    map[string]bool // by URL, of the policy
	governor *cache.Governor
}

// ruleLocked returns the rule of a name; nil if all changes of its keys pass at once.
func (c *Controller) ruleLocked(name string) *rule {
	if r := c.rules[name]; r != nil {
		return r
	}
	is := c.cfg.Rules(name)
	if is.Policy == nil {
		return nil
	}
	r := &rule{name: name, policy: is.Policy, traits: is.Traits, types: make(map[string]bool)}
	for _, one := range is.Policy.Types {
		r.types[rollout.URLOf(one)] = true
	}
	r.governor = &cache.Governor{Types: r.types, Wait: waitOf(is.Policy), Changed: c.inbox.change}
	c.rules[name] = r
	return r
}

// rest is what is kept of a key at rest.
type rest struct {
	rule *rule
	tier *restInTier // nil: there is no tier
}

// restInTier is what is kept besides, in a tier. Claiming keys do not rest.
type restInTier struct {
	role            Role
	epoch, seq, doc uint64   // see keyInTier; while it decides
	followers       []string // that know that all clients are shown what the tables have; sorted; while it decides
	follows         *followed
}

// followed is the newest message of the node that decides.
type followed struct {
	from, revision string
	epoch, seq     uint64
}

// mayRest reports whether nothing is lost if the key rests. What other nodes show for it is the same then.
func (k *key) mayRest() bool {
	if !k.state.IsNew() || len(k.history) > 0 || len(k.former) > 0 || k.next != nothing || k.isUnwritten() || !k.due.IsZero() || k.group.HasPending() {
		return false
	}
	switch f := k.follows; {
	case k.role == Claiming:
		return false
	case k.role == Following && f != nil:
		return f.m.As == AsTables && f.shows == AsTables && !f.news
	case k.role == Following:
		return true
	}
	for _, e := range k.elsewhere {
		if e.away || e.epoch != k.epoch || e.seq != k.doc {
			return false
		}
	}
	return true
}

// restLocked lets a key rest.
func (c *Controller) restLocked(k *key) {
	r := rest{rule: k.rule}
	if c.cfg.Tier != nil {
		t := &restInTier{role: k.role, epoch: k.epoch, seq: k.seq, doc: k.doc}
		for node := range k.elsewhere {
			t.followers = append(t.followers, node)
		}
		slices.Sort(t.followers)
		if f := k.follows; f != nil {
			t.follows = &followed{f.from, f.m.Revision, f.m.Epoch, f.m.Seq}
		}
		r.tier = t
	}
	delete(c.keys, k.group)
	delete(c.names, k.group.Key)
	c.resting[k.group] = r
}

// wakeLocked returns the key of a group, which no longer rests; nil if it has no policy.
func (c *Controller) wakeLocked(g *cache.Group) *key {
	r, is := c.resting[g]
	if !is {
		return c.keys[g]
	}
	delete(c.resting, g)
	if c.cfg.Group(g.Key) != g {
		return nil // it has ended
	}
	if other := c.names[g.Key]; other != nil {
		c.detach(other) // its group has ended
	}
	k := c.rested(g, r)
	c.keys[g], c.names[g.Key] = k, k
	return k
}

// rested returns the key of a group at rest, without waking it.
func (c *Controller) rested(g *cache.Group, r rest) *key {
	k := c.newKey(g, r.rule)
	if t := r.tier; t != nil {
		k.role, k.epoch, k.seq, k.doc = t.role, t.epoch, t.seq, t.doc
		if f := t.follows; f != nil {
			k.follows = &following{from: f.from, m: Shown{Key: k.name(), Epoch: f.epoch, Seq: f.seq, Revision: f.revision}}
		}
		if k.role == Deciding && c.tier.mixed {
			k.state.Stop(rollout.MixedVersions, time.Now())
		}
	}
	return k
}

// wakeAllLocked wakes all keys.
func (c *Controller) wakeAllLocked() {
	for g := range c.resting {
		c.wakeLocked(g)
	}
}

// wakeFollowedLocked wakes the keys that other nodes have begun to follow.
func (c *Controller) wakeFollowedLocked(followers map[string][]string) {
	for g, r := range c.resting {
		if r.tier.role == Deciding && slices.ContainsFunc(followers[string(g.Key)], func(node string) bool { return !slices.Contains(r.tier.followers, node) }) {
			c.wakeLocked(g)
		}
	}
}
