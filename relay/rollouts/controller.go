package rollouts

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// Rule is how changes are released to the clients that matched a rule of the aggregation.
type Rule struct {
	// Policy is nil if all changes pass at once.
	Policy *rollout.Policy
	// Traits returns what decides about the part of a client. Nil: each client may be a canary.
	Traits func(*fanout.Affected) Traits
}

// Traits are what decides about the part of a client in rollouts.
type Traits struct {
	// Eligible says that it may be a canary.
	Eligible bool
	// Group is the value of which each has a canary first, and Version the software, of which each has
	// a scout.
	Group, Version string
}

// Clients are the clients of this node: a [fanout.Server].
type Clients interface {
	Show(g *cache.Group, c *cache.Candidate, arm func(fanout.Canary) fanout.Arm, notify func(fanout.CanaryEvent))
	Watch(g *cache.Group, revision string, tables []*cache.Table, since time.Time, notify func(fanout.CanaryEvent))
	Hide(g *cache.Group, promoted bool)
	Canaries(g *cache.Group) []fanout.CanaryStatus
	Affected(g *cache.Group, c *cache.Candidate) []fanout.Affected
	Observe(g *cache.Group, revision string, tables []*cache.Table, since time.Time, notify func(fanout.CanaryEvent))
	Concerned(g *cache.Group, o *cache.Overlay) []fanout.Affected
}

// Config configures a [Controller]. It is not changed after [New].
type Config struct {
	// Rules returns how changes of a rule's keys are released, by the name of the rule. Required.
	Rules func(name string) Rule
	// Limits returns the budget and the breaker. Required.
	Limits func() rollout.Limits
	// Clients are those of this node, and Total is their number. Required.
	Clients Clients
	Total   func() int
	// Group returns the group of a key; nil if it has none. Required.
	Group func(aggregation.Key) *cache.Group
	// Save writes the records, before any client sees more. Nil: they end with the process. In a tier,
	// the ledger has them.
	Save func(Records) error
	// Tier is how the nodes of a tier agree. Nil: this node decides alone.
	Tier *Tier
	// Ask asks another system, and has an answer for each question, with the name of its check. It is called
	// without a lock. Nil: checks have no answer, so their policies release nothing.
	Ask func(context.Context, *rollout.Question) rollout.CheckResult
	// Decided is called with each decision. It must not block, nor call the controller. Nil: no call.
	Decided func(Decision)
	// Effective is called with each decision that takes effect: one that widens, not before the record has
	// it and clients are shown it; any other one at once. It must not block, nor call the controller. Nil: no
	// call.
	Effective func(*Effective)
	// Logger logs what goes wrong. Required.
	Logger *slog.Logger
}

// Controller carries out the rollouts of a node. All methods are safe for concurrent use.
type Controller struct {
	cfg   Config
	inbox inbox

	observed sync.Map // of *cache.Group that are observed

	mu sync.Mutex
	// Guarded by mu.
	rules     map[string]*rule         // that have a policy, by name
	keys      map[*cache.Group]*key    // that do not rest
	names     map[aggregation.Key]*key // the same ones
	resting   map[*cache.Group]rest
	budget    rollout.Budget
	records   store
	counts    counters
	asking    asking
	tier      tierState
	observing observing
	unsaved   bool      // the records have changed since they were written
	retryAt   time.Time // when they are written again after an error; zero: that has not failed
}

// inbox is what has happened since the goroutine has looked.
type inbox struct {
	wake chan struct{} // capacity 1

	mu sync.Mutex
	// Guarded by mu.
	changed map[*cache.Group]bool // keys of which the pending changes may be others
	touched map[*cache.Group]bool // keys of which a client has done something
	// rewrite are the names of keys whose records Redis may have lost.
	rewrite map[string]bool
	// observed are observed keys that have changed, and when.
	observed map[*cache.Group]time.Time
}

func (i *inbox) change(g *cache.Group) {
	i.mu.Lock()
	if i.changed == nil {
		i.changed = make(map[*cache.Group]bool)
	}
	i.changed[g] = true
	i.mu.Unlock()
	i.signal()
}

func (i *inbox) touch(g *cache.Group) {
	i.mu.Lock()
	if i.touched == nil {
		i.touched = make(map[*cache.Group]bool)
	}
	i.touched[g] = true
	i.mu.Unlock()
	i.signal()
}

func (i *inbox) lost(key string) {
	i.mu.Lock()
	if i.rewrite == nil {
		i.rewrite = make(map[string]bool)
	}
	i.rewrite[key] = true
	i.mu.Unlock()
	i.signal()
}

func (i *inbox) signal() {
	select {
	case i.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (i *inbox) take() (changed, touched map[*cache.Group]bool, rewrite map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	changed, touched, rewrite = i.changed, i.touched, i.rewrite
	i.changed, i.touched, i.rewrite = nil, nil, nil
	return changed, touched, rewrite
}

// New returns a controller with the records of an earlier process.
func New(cfg Config, earlier Records) *Controller {
	c := &Controller{cfg: cfg, rules: make(map[string]*rule), keys: make(map[*cache.Group]*key), names: make(map[aggregation.Key]*key), resting: make(map[*cache.Group]rest), inbox: inbox{wake: make(chan struct{}, 1)}, tier: newTierState()}
	c.records.load(earlier)
	c.budget = earlier.Budget
	return c
}

// Attach is called when a client of a rule has joined a key, before it subscribes to anything. The first
// one decides which policy the key has.
func (c *Controller) Attach(g *cache.Group, rule string) {
	if _, observed := c.observed.Load(g); observed || g.IsGoverned() || c.cfg.Rules(rule).Policy == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.ruleLocked(rule); r != nil {
		c.attachLocked(g, r)
	}
}

// attachLocked makes a policy release or observe the changes of a key that has none yet.
func (c *Controller) attachLocked(g *cache.Group, r *rule) {
	_, rests := c.resting[g]
	switch {
	case rests || c.keys[g] != nil || c.observing.keys[g] != nil:
		return
	case r.policy.Mode == rollout.Observe:
		c.observeLocked(g, r)
		c.observed.Store(g, nil)
		return
	case !r.policy.Mode.Holds():
		return
	}
	if ended := c.names[g.Key]; ended != nil {
		c.detach(ended) // its record is that of the new one
	}
	k := c.newKey(g, r)
	k.followsOrders(time.Now())
	if c.keys[g], c.names[g.Key] = k, k; c.cfg.Tier != nil {
		c.joinLocked(k)
	}
	g.Govern(r.governor)
	if k.mayRest() {
		c.restLocked(k)
		return
	}
	c.inbox.touch(g)
}

// RulesChanged applies the policies that are in force now. A rollout on its way keeps the one that it
// began with.
func (c *Controller) RulesChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.rules)
	for g, o := range maps.Clone(c.observing.keys) {
		switch r := c.ruleLocked(o.rule.name); {
		case r == nil:
			c.unobserveLocked(o)
		case r.policy.Mode != rollout.Observe:
			c.unobserveLocked(o)
			c.attachLocked(g, r)
		default:
			o.setRule(r)
		}
	}
	c.wakeAllLocked()
	for g, k := range maps.Clone(c.keys) {
		r := c.ruleLocked(k.rule.name)
		switch {
		case r == nil || !r.policy.Mode.Holds():
			c.detach(k)
			g.Govern(nil)
			if r != nil {
				c.attachLocked(g, r)
			}
		default:
			k.setRule(r)
			g.Govern(r.governor)
			c.inbox.change(g)
		}
	}
}

// detach ends what is shown of a key. Its record stays.
func (c *Controller) detach(k *key) {
	k.arms.brake()
	k.endInquiry()
	k.ends(EndedDropped)
	c.cfg.Clients.Hide(k.group, false)
	k.givesBack()
	c.record(k)
	c.unsaved = true
	delete(c.keys, k.group)
	delete(c.names, k.group.Key)
}

const (
	// look is how often the canaries of a revision are looked at, without a reason.
	look = time.Second
	// sweep is how often keys are looked at that may have ended.
	sweep = 30 * time.Second
)

// Run carries out rollouts until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	defer c.asking.work.Wait()
	if c.cfg.Tier != nil {
		var work sync.WaitGroup
		defer work.Wait()
		work.Go(func() { c.agree(ctx) })
		work.Go(func() { c.exchange(ctx) })
	}
	timer := time.NewTimer(sweep)
	defer timer.Stop()
	swept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.inbox.wake:
		}
		now := time.Now()
		if now.Sub(swept) >= sweep {
			swept = now
			c.sweep()
		}
		next := c.turn(now)
		if at := c.ask(ctx, now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		if at := swept.Add(sweep); next.IsZero() || at.Before(next) {
			next = at
		}
		timer.Reset(max(time.Until(next), time.Millisecond))
	}
}

// sweep forgets the keys that have ended, and lets others rest.
func (c *Controller) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g, k := range c.keys {
		if c.cfg.Group(g.Key) != g {
			c.detach(k)
		} else if k.mayRest() {
			c.restLocked(k)
		}
	}
	for g := range c.resting {
		if c.cfg.Group(g.Key) != g {
			delete(c.resting, g)
		}
	}
	c.sweepObserved()
}

// turn does all that is to be done now. It returns when it has to be called again at the latest; zero for
// not before something happens.
func (c *Controller) turn(now time.Time) (next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, touched, rewrite := c.inbox.take()
	for name := range rewrite {
		if k := c.keyNamed(name); k != nil && k.role == Deciding {
			k.edits++
		}
	}
	for g := range changed {
		if _, rests := c.resting[g]; rests && !g.HasPending() {
			continue
		}
		if k := c.wakeLocked(g); k != nil {
			k.pendingChanged(now)
		}
		touched = with(touched, g)
	}
	for g, k := range c.keys {
		switch {
		case k.role == Following:
			if touched[g] {
				c.tier.reports(k)
			}
			if !k.due.IsZero() && !now.Before(k.due) {
				k.settle(now)
				c.tier.reports(k)
			}
		case touched[g] || !k.due.IsZero() && !now.Before(k.due):
			k.evaluate(now)
		}
		if k.state.IsUnderWay() {
			k.renews(now)
		}
	}
	c.reveal(now)
	c.tier.wakeIfDue(c.keys)
	next = c.observe(touched, now)
	for _, k := range c.keys {
		if !k.due.IsZero() && (next.IsZero() || k.due.Before(next)) {
			next = k.due
		}
	}
	if c.unsaved && (next.IsZero() || c.retryAt.Before(next)) {
		next = c.retryAt
	}
	return next
}

func with(set map[*cache.Group]bool, g *cache.Group) map[*cache.Group]bool {
	if set == nil {
		set = make(map[*cache.Group]bool)
	}
	set[g] = true
	return set
}

// reveal writes the records, and then lets clients see what the keys have decided. That may make more
// decisions possible, so it is repeated.
func (c *Controller) reveal(now time.Time) {
	for range maxActs {
		written, again := c.save(now), false
		for _, k := range c.keys {
			if k.reveals(written && !k.isUnwritten()) {
				again = true
				k.reveal(now)
				k.evaluate(now)
			}
		}
		if !again {
			return
		}
	}
}

// save writes the records if they have changed. It returns false if that is not possible: then no client
// may see more.
func (c *Controller) save(now time.Time) bool {
	if !c.unsaved || c.cfg.Save == nil || c.cfg.Tier != nil {
		c.unsaved = false
		return true
	}
	if now.Before(c.retryAt) {
		return false
	}
	for _, k := range c.keys {
		c.record(k)
	}
	if err := c.cfg.Save(c.records.saved(c.budget)); err != nil {
		c.retryAt = now.Add(time.Second)
		c.cfg.Logger.Error("cannot write the records of rollouts: no further client gets a new revision until that works", "error", err)
		return false
	}
	c.unsaved, c.retryAt = false, time.Time{}
	return true
}

func newSalt() string { return rand.Text() }
