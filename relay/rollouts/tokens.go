package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/rollout"
	"xdsrelay/shard/ledger"
)

// The budget counts for all nodes of a tier. A key asks for tokens, and the goroutine of the ledger makes all
// changes of the budget that have gathered, as one write.

// tokenRequest identifies a request for tokens.
type tokenRequest struct {
	revision rollout.Digest
	step     int
	count    int
}

// budgetAct is a change of the budget.
type budgetAct uint8

const (
	takes budgetAct = iota
	givesBack
	renews
	passes
	fails
	resets
)

type budgetOp struct {
	what   budgetAct
	key    aggregation.Key
	count  int
	starts bool
	cut    time.Time // of the revision
	asked  tokenRequest
}

// givesBack returns the tokens of a key.
func (k *key) givesBack() {
	if k.c.cfg.Tier == nil {
		k.c.budget.GiveBack(k.name())
	} else if k.asked != (tokenRequest{}) {
		k.asked, k.heard = tokenRequest{}, false
		k.budgetChanges(budgetOp{what: givesBack}, time.Time{})
	}
}

// renewEvery is how often the tokens of a key are renewed in a tier: they last for an hour.
const renewEvery = 10 * time.Minute

// renews makes the tokens of a key last.
func (k *key) renews(now time.Time) {
	if k.c.cfg.Tier == nil {
		k.c.budget.Renew(k.name(), now)
	} else if now.Sub(k.renewed) >= renewEvery {
		k.renewed = now
		k.budgetChanges(budgetOp{what: renews}, now)
	}
}

// budgetChanges makes a change of the budget for a key: at once, or in a tier as soon as possible.
func (k *key) budgetChanges(op budgetOp, now time.Time) {
	op.key = k.group.Key
	if op.what == passes || op.what == fails {
		k.asked, k.heard = tokenRequest{}, false
	}
	k.c.budgetChanges(op, now)
}

func (c *Controller) budgetChanges(op budgetOp, now time.Time) {
	if c.cfg.Tier == nil {
		c.apply(&c.budget, op, now)
		return
	}
	c.tier.ops = append(c.tier.ops, op)
	wake(c.tier.toAgree)
}

// apply makes a change of a budget.
func (c *Controller) apply(b *rollout.Budget, op budgetOp, now time.Time) (rollout.Grant, int) {
	limits := c.cfg.Limits()
	switch op.what {
	case takes:
		return b.Take(&limits, string(op.key), op.count, op.starts, c.cfg.Total(), op.cut, now)
	case givesBack:
		b.GiveBack(string(op.key))
	case renews:
		b.Renew(string(op.key), now)
	case passes:
		b.Pass(&limits, string(op.key), op.cut)
	case fails:
		b.Failed(&limits, string(op.key), now)
	case resets:
		b.Reset()
	}
	return rollout.Given, 0
}

// ask returns what the budget of the tier has said to a request; until it has, it says that there is none
// left.
func (k *key) ask(op budgetOp) (rollout.Grant, int) {
	op.asked = tokenRequest{k.state.Run.Revision, k.state.Run.Step, op.count}
	switch {
	case k.asked == op.asked && k.heard && k.answer == rollout.Given:
		return k.answer, k.tokens
	case k.asked == op.asked && !k.heard:
		return rollout.Full, 0
	}
	is := k.answer
	if k.asked != op.asked || is == rollout.Given {
		is = rollout.Full
	}
	k.asked, k.heard = op.asked, false // also once more after a refusal
	k.budgetChanges(op, time.Time{})
	return is, 0
}

// isOutdated reports whether a change of the budget takes tokens for a key that no longer asks for them: nobody
// would return them.
func (c *Controller) isOutdated(op budgetOp) bool {
	if op.what != takes {
		return false
	}
	k := c.names[op.key]
	return k == nil || k.role != Deciding || k.asked != op.asked
}

// maxTries bounds how often the budget is read again because another node has written it.
const maxTries = 10

// writeBudget makes the changes of the budget.
func (c *Controller) writeBudget(ctx context.Context) error {
	c.mu.Lock()
	ops := slices.DeleteFunc(c.tier.ops, c.isOutdated)
	c.tier.ops = nil
	c.mu.Unlock()
	if len(ops) == 0 {
		return nil
	}
	var err error
	for range maxTries {
		var budget rollout.Budget
		var entry ledger.Entry
		if entry, err = c.cfg.Tier.Ledger.Budget(ctx); err != nil {
			break
		}
		if entry.Text != "" {
			if err := json.Unmarshal([]byte(entry.Text), &budget); err != nil {
				c.cfg.Logger.Error("the budget of rollouts in Redis is damaged: it starts again", "error", err)
				budget = rollout.Budget{}
			}
		}
		now := time.Now()
		type granted struct {
			grant rollout.Grant
			count int
		}
		grants := make([]granted, len(ops))
		for i, op := range ops {
			grants[i].grant, grants[i].count = c.apply(&budget, op, now)
		}
		text, marshalErr := json.Marshal(budget)
		if marshalErr != nil {
			panic("rollouts: a budget cannot be written as JSON: " + marshalErr.Error())
		}
		seq := entry.Seq
		if string(text) != entry.Text {
			seq, err = c.cfg.Tier.Ledger.WriteBudget(ctx, entry.Seq, string(text))
		}
		if errors.Is(err, ledger.ErrChanged) {
			continue
		}
		if err != nil {
			break
		}
		c.mu.Lock()
		c.budget, c.tier.budgetSeq = budget, seq
		for i, op := range ops {
			k := c.names[op.key]
			if op.what != takes || k == nil || k.asked != op.asked {
				continue
			}
			k.answer, k.tokens, k.heard = grants[i].grant, grants[i].count, true
			if k.answer == rollout.Given {
				c.inbox.touch(k.group)
			}
		}
		c.mu.Unlock()
		return nil
	}
	c.mu.Lock()
	c.tier.ops = append(ops, c.tier.ops...)
	c.mu.Unlock()
	return err
}
