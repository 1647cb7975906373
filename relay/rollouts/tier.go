package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/pause"
	"xdsrelay/relay/rollout"
	"xdsrelay/shard/ledger"
)

// In a tier, the owner of a key decides about its revisions. It writes each step to the ledger before any
// client sees more, and sends the nodes that follow it what to show to which of their clients. They answer
// how these take it. A node that does not own a key, or has not read its record, releases nothing.

// Tier is how the nodes of a tier agree.
type Tier struct {
	// Node is the name of this node. Required.
	Node string
	// Ledger has the records of all keys and the budget. Required.
	Ledger Ledger
	// Epoch returns the number under which this node owns a key; false if it does not, or cannot prove it.
	// Required.
	Epoch func(key string) (uint64, bool)
	// Followers returns the names of the nodes that get keys from this one, by key. Required.
	Followers func() map[string][]string
	// Members returns the names of all nodes of the tier. Required.
	Members func() []string
	// Exchange sends something to another node, and returns its answer. Required.
	Exchange func(ctx context.Context, node string, m Exchange) (Exchange, error)
	// Able reports whether all nodes of the tier support rollouts. Required.
	Able func() bool
	// Seal returns what clients had before a revision as the ledger may have it, and Open is its reverse, on any
	// node. Required.
	Seal func(key string, f *cache.Former) ([]byte, error)
	Open func(key string, sealed []byte) (*cache.Former, error)
}

// Ledger is a [ledger.Ledger].
type Ledger interface {
	Record(ctx context.Context, key string) (ledger.Entry, error)
	WriteRecord(ctx context.Context, key string, epoch uint64, e ledger.Entry) (ledger.Written, error)
	Budget(ctx context.Context) (ledger.Entry, error)
	WriteBudget(ctx context.Context, after uint64, text string) (seq uint64, err error)
}

// Role is what this node does about the revisions of a key.
type Role uint8

const (
	// Deciding: it decides. The zero value: a node without a tier always does.
	Deciding Role = iota
	// Following: another node decides, or none does.
	Following
	// Claiming: this node owns the key, and has not read its record yet.
	Claiming
	roleCount
)

func (r Role) String() string {
	return [roleCount]string{"deciding", "following", "claiming"}[r]
}

// roleEvent is what changes a role.
type roleEvent uint8

const (
	// owned: this node has become the owner. left: it is not any more.
	owned roleEvent = iota
	left
	// recordRead: the record of the key was read under the epoch of this node.
	recordRead
	// superseded: another node has written under a later epoch.
	superseded
	roleEvents
)

// roles are the transitions of roles.
var roles = [roleEvents][roleCount]Role{
	owned:      {Deciding: Deciding, Following: Claiming, Claiming: Claiming},
	left:       {Deciding: Following, Following: Following, Claiming: Following},
	recordRead: {Deciding: Deciding, Following: Following, Claiming: Deciding},
	superseded: {Deciding: Claiming, Following: Following, Claiming: Claiming},
}

// tierState is what a controller keeps besides its keys. Controller.mu guards it but for the channels, which
// are fixed. The zero value is that of a node without a tier.
type tierState struct {
	toAgree    chan struct{}         // capacity 1: something is to be read or written
	toExchange chan struct{}         // capacity 1: something is to be sent
	owned      map[*cache.Group]bool // keys that this node owns, with or without a policy
	busy       map[string]bool       // nodes that have not answered yet
	ops        []budgetOp
	budgetSeq  uint64 // of the budget as this node has written it last
	failing    bool   // the last call of the ledger has failed
	mixed      bool   // not all nodes support rollouts
}

// keyInTier is what a key has besides, in a tier.
type keyInTier struct {
	// edits counts the changes of the record, written those that are in the ledger.
	edits, written uint64
	// contents and stored are the same for key.former, which is written with the record.
	contents, stored uint64
	seq              uint64 // of the record that was read or written last
	epoch            uint64
	readAt           time.Time  // the record is not read before
	doc              uint64     // counts the changes of what other nodes are sent
	follows          *following // nil: no node has said anything
}

// decidingInTier is what a node knows besides, in a tier.
type decidingInTier struct {
	cutAt time.Time // of the candidate

	// asked is the request for tokens that is on its way or answered, for the step of a revision.
	asked   tokenRequest
	answer  rollout.Grant
	tokens  int
	heard   bool // the request is answered
	renewed time.Time

	stepDoc   uint64 // the first of keyInTier.doc with the present canaries
	shared    []cache.SharedView
	elsewhere map[string]*elsewhere // by node
}

func newTierState() tierState {
	return tierState{
		toAgree: make(chan struct{}, 1), toExchange: make(chan struct{}, 1),
		owned: make(map[*cache.Group]bool), busy: make(map[string]bool),
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake, or no node needs it
	}
}

// Own is called when this node has become the owner of a key. The function that it returns ends that.
func (c *Controller) Own(g *cache.Group) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tier.owned[g] = true
	if k := c.wakeLocked(g); k != nil {
		k.becomes(owned)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.tier.owned, g)
		if k := c.wakeLocked(g); k != nil {
			k.becomes(left)
		}
	}
}

// Rewrite is called if Redis has lost what the owner of a key has written, or if that was written long ago:
// the record of the key is written again. It takes no lock but that of the inbox.
func (c *Controller) Rewrite(key string) { c.inbox.lost(key) }

// joinLocked gives a new key its role.
func (c *Controller) joinLocked(k *key) {
	if k.role = Following; c.tier.owned[k.group] {
		k.becomes(owned)
	}
}

// becomes changes the role.
func (k *key) becomes(e roleEvent) {
	was := k.role
	k.role = roles[e][was]
	if k.role == was || k.role == Deciding {
		return
	}
	k.stops()
	if k.role == Claiming {
		wake(k.c.tier.toAgree)
	}
}

// stops forgets what this node has decided. What its clients are shown stays, until the node that decides
// now says something else.
func (k *key) stops() {
	k.endInquiry()
	k.state, k.deciding = rollout.New(k.state.Policy()), deciding{}
	k.written, k.stored = k.edits, k.contents
}

// isUnwritten reports whether the ledger lacks something of the record.
func (k *key) isUnwritten() bool { return k.c.cfg.Tier != nil && k.written < k.edits }

// publishes says that other nodes are to be sent something else.
func (k *key) publishes() {
	if k.c.cfg.Tier != nil {
		k.doc++
		wake(k.c.tier.toExchange)
	}
}

// wakeIfDue wakes the goroutine of the ledger if a record is to be written.
func (t *tierState) wakeIfDue(keys map[*cache.Group]*key) {
	for _, k := range keys {
		if k.role == Claiming || k.role == Deciding && k.isUnwritten() {
			wake(t.toAgree)
			return
		}
	}
}

// agree reads and writes the ledger until ctx ends.
func (c *Controller) agree(ctx context.Context) {
	timer := time.NewTimer(pause.Next(look))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.tier.toAgree:
		}
		timer.Reset(pause.Next(look))
		c.checkVersions()
		problem := errors.Join(c.readRecords(ctx), c.writeBudget(ctx), c.writeRecords(ctx))
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		news := (problem != nil) != c.tier.failing
		c.tier.failing = problem != nil
		c.mu.Unlock()
		switch {
		case news && problem != nil:
			c.cfg.Logger.Error("cannot reach the records of rollouts in Redis: no further client gets a new revision until that works", "error", problem)
		case news:
			c.cfg.Logger.Info("the records of rollouts in Redis can be reached again")
		}
		if problem != nil {
			select { // not again at once, whatever wakes it
			case <-ctx.Done():
				return
			case <-time.After(look / 2):
			}
		}
	}
}

// checkVersions brakes all keys while a node of the tier does not support rollouts: it would show its
// clients what it gets, and count for nothing.
func (c *Controller) checkVersions() {
	able := c.cfg.Tier.Able()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tier.mixed = !able
	now := time.Now()
	for _, k := range c.keys {
		if k.role != Deciding {
			continue
		}
		switch is := k.state.Brakes.Has(rollout.MixedVersions); {
		case !able && !is:
			k.state.Stop(rollout.MixedVersions, now)
		case able && is:
			k.carry(k.state.Release(rollout.MixedVersions, now), now)
			c.inbox.touch(k.group)
		}
	}
}

// readRecords reads the records of the keys that this node has claimed.
func (c *Controller) readRecords(ctx context.Context) (problem error) {
	c.mu.Lock()
	var claimed []*key
	now := time.Now()
	for _, k := range c.keys {
		if k.role == Claiming && !now.Before(k.readAt) {
			claimed = append(claimed, k)
		}
	}
	c.mu.Unlock()
	for _, k := range claimed {
		epoch, ok := c.cfg.Tier.Epoch(k.name())
		if !ok {
			continue // the claim is on its way
		}
		entry, err := c.cfg.Tier.Ledger.Record(ctx, k.name())
		if err != nil {
			problem = err
			continue
		}
		before := c.cfg.Tier.load(k.name(), entry.Contents)
		c.mu.Lock()
		if k.role == Claiming {
			k.takeOver(epoch, entry, before, time.Now())
		}
		c.mu.Unlock()
	}
	return problem
}

// takeOver continues what the record says. If there is none, although clients are shown a candidate, the
// next revision goes to the same clients first.
func (k *key) takeOver(epoch uint64, entry ledger.Entry, before []former, now time.Time) {
	k.becomes(recordRead)
	k.epoch, k.seq = epoch, entry.Seq
	var r Record
	var err error
	if entry.Text != "" {
		if err = json.Unmarshal([]byte(entry.Text), &r); err == nil {
			err = r.Check()
		}
	}
	policy := k.state.Policy()
	switch f := k.follows; {
	case err == nil && entry.Text != "":
		k.salt, k.state, k.former = r.Salt, rollout.Restore(r.Record, policy, now), matching(before, &r.Record)
	case f != nil && f.m.As == AsCandidate:
		k.salt, k.state = f.m.Salt, rollout.New(policy)
	default:
		k.state = rollout.New(policy)
	}
	if err != nil {
		k.c.cfg.Logger.Error("the record of a rollout in Redis is damaged: the key starts without it", "key", k.name(), "error", err)
	}
	// The key may hold tokens, of this node or another one that did not return them.
	k.asked = tokenRequest{revision: k.state.Run.Revision, step: -1}
	if !k.state.IsUnderWay() {
		k.givesBack()
	}
	if k.c.tier.mixed {
		k.state.Stop(rollout.MixedVersions, now)
	}
	if k.state.IsUnderWay() { // any node may have canaries, also one that does not follow this one yet
		for _, node := range k.c.cfg.Tier.Members() {
			if node != k.c.cfg.Tier.Node {
				k.meets(node)
			}
		}
	}
	k.running, k.history = k.state.IsJudged(), r.History
	k.edits++ // written at once, so that the owner before can write no more
	k.publishes()
	switch {
	case k.state.Phase == rollout.Proving:
		k.arms = k.newArms()
		k.watch(now)
	case !k.state.IsUnderWay():
		k.c.cfg.Clients.Hide(k.group, false)
	}
	if k.follows != nil {
		k.follows.forget()
	}
	k.setFrozen("", "an order from before this node owned the key", now)
	k.c.inbox.change(k.group)
}

// watch observes all clients of this node after a promotion, until the final bake is over.
func (k *key) watch(now time.Time) {
	k.arms.finish()
	k.c.cfg.Clients.Watch(k.group, k.state.Stable.String(), k.governedTables(), now, k.arms.notify)
}

func (k *key) governedTables() (all []*cache.Table) {
	for _, t := range k.group.Tables() {
		if k.rule.types[t.Type.URL] {
			all = append(all, t)
		}
	}
	return all
}

// isKnown reports whether what is pending is what the record calls stable: this node was behind, and its
// clients get what the others have.
func (k *key) isKnown() bool {
	if k.c.cfg.Tier == nil || k.state.Stable.IsZero() || !k.group.HasAnswered() {
		return false
	}
	o := k.group.CutOverlay()
	return o != nil && digestOf(o) == k.state.Stable
}

// writeRecords writes the records that have changed.
func (c *Controller) writeRecords(ctx context.Context) (problem error) {
	type job struct {
		k               *key
		epoch           uint64
		entry           ledger.Entry
		edits, contents uint64
		former          []former // nil: as they are in the ledger
	}
	var jobs []job
	c.mu.Lock()
	for _, k := range c.keys {
		if k.role != Deciding || !k.isUnwritten() {
			continue
		}
		text, err := json.Marshal(k.saved())
		if err != nil {
			panic("rollouts: a record cannot be written as JSON: " + err.Error())
		}
		j := job{k: k, epoch: k.epoch, entry: ledger.Entry{Seq: k.seq, Text: string(text)}, edits: k.edits, contents: k.contents}
		if k.stored < k.contents {
			j.former = append([]former{}, k.former...)
		}
		jobs = append(jobs, j)
	}
	c.mu.Unlock()
	for _, j := range jobs {
		if j.former != nil {
			j.entry.Contents = c.cfg.Tier.store(j.k.name(), j.former)
		}
		done, err := c.cfg.Tier.Ledger.WriteRecord(ctx, j.k.name(), j.epoch, j.entry)
		c.mu.Lock()
		switch {
		case j.k.role != Deciding || j.k.epoch != j.epoch:
		case errors.Is(err, ledger.ErrSuperseded), errors.Is(err, ledger.ErrChanged):
			// The latter also where the answer to the last write was lost: it is read again.
			j.k.readAt = time.Now().Add(look / 2)
			j.k.becomes(superseded)
		case err != nil:
			problem = err
		default:
			j.k.seq, j.k.written, j.k.stored = done.Seq, j.edits, j.contents
			if !done.HasContents && len(j.k.former) > 0 { // Redis has lost them
				j.k.contents++
				j.k.edits++
			}
			c.inbox.touch(j.k.group)
		}
		c.mu.Unlock()
	}
	return problem
}
