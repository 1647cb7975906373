package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/rollouts"
	"xdsrelay/shard/lastgood"
)

// rolloutOrders are the orders of operators about what clients see. In a tier with Redis, the nodes agree on
// those to freeze and to undo, and the owner of a key carries out all others.
type rolloutOrders struct {
	node *Node
	// load and save keep the orders beyond a restart; nil without a last known good directory.
	load func() ([]byte, error)
	save func([]byte) error

	ended chan struct{} // an undo has ended by itself

	mu     sync.Mutex   // serializes orders; taken before all locks of the cache
	agreed agreedOrders // in a tier
}

// buildRollouts puts the orders of an earlier process into force.
func (n *Node) buildRollouts() error {
	r := &n.rollouts
	r.node, r.ended = n, make(chan struct{}, 1)
	n.add(part{watch: r.watch})
	r.buildAgreed()
	if r.load == nil {
		return nil
	}
	text, err := r.load()
	if err != nil || len(text) == 0 {
		return err
	}
	var o cache.Orders
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("the orders in the last known good directory are damaged, so it is unknown which keys are frozen; remove %s to start without orders: %w", lastgood.OrdersFile, err)
	}
	held := len(o.Keys) + len(o.Undone)
	switch {
	case o.All == nil && held == 0:
		return nil
	case n.inTier():
		return fmt.Errorf("keys are frozen by orders in the last known good directory, and a tier does not keep them so: run 'xdsrelay rollout unfreeze' before this node joins a tier, or remove %s", lastgood.OrdersFile)
	}
	n.cache.Obey(o)
	n.part(logs.Node).Warn("orders of operators are in force since before this start; see 'xdsrelay rollout status'", "all_keys", o.All != nil, "keys", held)
	return nil
}

// inTier reports whether other nodes may serve the same keys.
func (n *Node) inTier() bool { return n.links != nil || n.store != nil }

// showRollout are the questions and orders of operators.
func (n *Node) showRollout() ops.ShowRollout {
	return ops.ShowRollout{
		Status: n.statusOfAll, Active: n.activeOfAll, History: showOf[ops.RolloutHistory](n, shownHistory), Diff: showOf[ops.RolloutDiff](n, shownDiff),
		Order: n.rollouts.order, Plan: showOf[ops.RolloutPlan](n, shownPlan),
	}
}

// order carries out an order. The error says why nothing was changed.
func (r *rolloutOrders) order(ctx context.Context, o ops.RolloutOrder) (done ops.RolloutOrdered, err error) {
	if r.agreed.ledger != nil && (o.Do == ops.OrderFreeze || o.Do == ops.OrderUnfreeze) {
		return r.freezeTier(ctx, o)
	}
	done, asked, err := askOwner[ops.RolloutOrdered](ctx, r.node, rolloutOrdered, o.Key, url.Values{paramWhat: {o.Do}, ops.ParamReason: {o.Reason}, paramBy: {o.By}})
	if asked {
		return done, err
	}
	return r.orderHere(ctx, o)
}

// orderHere carries out an order as the node that decides about it.
func (r *rolloutOrders) orderHere(ctx context.Context, o ops.RolloutOrder) (done ops.RolloutOrdered, err error) {
	n := r.node
	done = ops.RolloutOrdered{Order: o.Do, Node: n.name, Key: o.Key}
	control := n.control.Load()
	switch {
	case n.inTier() && r.agreed.ledger == nil:
		return done, ops.ErrRolloutTier
	case n.inTier() && (o.Do == ops.OrderFreeze || o.Do == ops.OrderUnfreeze):
		return r.freezeTier(ctx, o)
	case n.inTier() && o.Do == ops.OrderUndo && !control.Has(o.Key):
		return r.undoTier(ctx, o)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key, f := aggregation.Key(o.Key), cache.Freeze{Reason: o.Reason, By: o.By, Since: time.Now()}
	orders := n.cache.Orders()
	held := orders.Keys[key] != nil || orders.Undone[key] != nil
	if o.Key != "" && n.cache.GroupOf(key) == nil && (!held || o.Do == ops.OrderUndo) {
		return done, ops.ErrUnknownKey
	}
	switch {
	case o.Do == ops.OrderResume && o.Key == "":
		if !control.ResumeAll() {
			return done, errors.New("the breaker is not open: rollouts start by themselves; to resume a paused one, name its key")
		}
	case n.inTier(), o.Do == ops.OrderUndo && control.Has(o.Key), slices.Contains(policyOrders, o.Do):
		if err = control.Order(o.Do, o.Key, o.By, o.Reason); err == nil {
			n.part(logs.Node).Warn("order about a rollout", "order", o.Do, "key", redact.Short(o.Key, maxOrderText), "reason", redact.Short(o.Reason, maxOrderText), "identity", redact.Short(o.By, maxOrderText))
		}
		return done, err
	case o.Do == ops.OrderFreeze && o.Key == "":
		n.cache.FreezeAll(f)
	case o.Do == ops.OrderFreeze:
		n.cache.Freeze(key, f)
	case o.Do == ops.OrderUndo:
		var u cache.Undone
		u, done.Changes, err = n.cache.Undo(key, f)
		done.Revisions = u.Revisions
	case o.Key == "" && orders.All == nil:
		return done, errors.New("not all keys are frozen; 'xdsrelay rollout status' lists those that are")
	case o.Key == "":
		done.Changes = n.cache.UnfreezeAll()
	case orders.All != nil:
		return done, errors.New("all keys are frozen: end that with --all")
	case !held:
		return done, errors.New("the key is not frozen, and nothing of it is undone")
	default:
		done.Changes = n.cache.Unfreeze(key)
	}
	if err != nil {
		return done, err
	}
	control.SetFrozen(o.By, o.Reason)
	if done.Note = r.keep(); o.Do == ops.OrderUnfreeze && r.save == nil {
		done.Note = "" // there is no order left to lose
	}
	n.part(logs.Node).Warn("order about what clients see", "order", o.Do, "key", redact.Short(o.Key, maxOrderText), "reason", redact.Short(o.Reason, maxOrderText), "identity", redact.Short(o.By, maxOrderText), "changes", done.Changes)
	return done, nil
}

// planHere is who would be the canaries of a key. Without a policy, all changes pass at once.
func (n *Node) planHere(key string) (ops.RolloutPlan, error) {
	if n.cache.GroupOf(aggregation.Key(key)) == nil {
		return ops.RolloutPlan{}, ops.ErrUnknownKey
	}
	p, err := n.control.Load().Plan(key)
	if errors.Is(err, rollouts.ErrNoPolicy) {
		return ops.RolloutPlan{Key: key, Steps: []rollouts.PlanStep{}}, nil
	}
	return p, err
}

// policyOrders are the orders about keys with a rollout policy.
var policyOrders = []string{ops.OrderApprove, ops.OrderPause, ops.OrderResume, ops.OrderAbort, ops.OrderRetry, ops.OrderPromote}

// keep makes the orders outlive the process. It returns what an operator has to know if they do not.
func (r *rolloutOrders) keep() string {
	if r.save == nil {
		return "a restart of the node ends this: last_known_good.store is not \"directory\""
	}
	text, err := json.Marshal(r.node.cache.Orders())
	if err == nil {
		err = r.save(text)
	}
	if err != nil {
		r.node.part(logs.LastGood).Error("cannot write the orders about what clients see; a restart of the node ends them", "error", err)
		return "a restart of the node ends this: the order could not be written: " + redact.Text(err.Error())
	}
	return ""
}

// undoEnded logs that a key is no longer held at an earlier revision.
func (n *Node) undoEnded(g *cache.Group, changes int) {
	n.part(logs.Origin).Warn("the control plane sent something else instead of what was undone: the key is no longer held", "key", string(g.Key), "changes", changes)
	select {
	case n.rollouts.ended <- struct{}{}:
	default: // the orders are about to be written
	}
}

// watch writes the orders when one has ended by itself.
func (r *rolloutOrders) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.ended:
			if r.agreed.ledger != nil {
				r.lookAgain(ctx)
				continue
			}
			r.mu.Lock()
			r.keep()
			r.node.control.Load().SetFrozen("", "the control plane sent something else than what was undone")
			r.mu.Unlock()
		}
	}
}
