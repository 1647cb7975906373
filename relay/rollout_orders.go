package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/redact"
	"xdsrelay/shard/ledger"
)

// In a tier, the orders to freeze and to undo are a text in Redis. All nodes follow it: the owner of a key holds
// its changes back, and any other node does so once it becomes the owner, or asks the control plane itself. The
// node that gets an order writes it, follows it, and has the others read it.

// agreedOrders are the orders in Redis, as this node knows them. rolloutOrders.mu guards all but the ledger.
type agreedOrders struct {
	ledger *ledger.Ledger // nil: there is no Redis
	seq    uint64         // of the write that was read or made last; 0: none
	orders cache.Orders   // of that
	at     time.Time      // of that
	// unwritten are keys that were undone here, while Redis could not be reached any more.
	unwritten map[aggregation.Key]*cache.Undone
	failing   bool // the last read has failed
}

// writtenOrders are the orders in Redis.
type writtenOrders struct {
	cache.Orders

	Node string `json:"node"` // that has written them
}

const (
	// ordersEvery is how often a node looks whether there are other orders of which it was not notified.
	ordersEvery = 10 * time.Second
	// ordersRefresh is when unchanged orders are written again, so that they do not expire.
	ordersRefresh = 24 * time.Hour
	// ordersTimeout bounds a read or write of orders, and mostChanged how often one is repeated because
	// another node has written meanwhile.
	ordersTimeout = 5 * time.Second
	mostChanged   = 5
)

// errOrdersAway refuses orders that nodes cannot agree on.
var errOrdersAway = errors.New("the order cannot be written to Redis, so no node follows it; repeat it once Redis can be reached")

// rolloutFollow makes a node read the orders in Redis.
const rolloutFollow = "rollout-follow"

// ordersFollowed is the answer.
type ordersFollowed struct {
	Seq     uint64 `json:"seq"`
	Changes int    `json:"changes"`
}

// buildAgreed makes this node follow the orders in Redis, before it has a client. If Redis cannot be reached, it
// follows them as soon as it can.
func (r *rolloutOrders) buildAgreed() {
	n := r.node
	if n.store == nil {
		return
	}
	r.agreed.ledger = ledger.New(n.store, n.peers.door.token)
	n.add(part{watch: r.watchAgreed})
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Tier.Redis.Timeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _, _ = r.readLocked(ctx, "", "") // it is logged
}

// watchAgreed follows the orders in Redis until ctx ends.
func (r *rolloutOrders) watchAgreed(ctx context.Context) {
	timer := time.NewTicker(ordersEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		r.lookAgain(ctx)
	}
}

// lookAgain reads the orders, and writes what Redis lacks.
func (r *rolloutOrders) lookAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ordersTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	has, _, err := r.readLocked(ctx, "", "")
	if err != nil {
		return
	}
	a := &r.agreed
	lost := !has && !a.orders.IsZero()
	if old := !a.orders.IsZero() && time.Since(a.at) > ordersRefresh; lost || old || len(a.unwritten) > 0 || len(r.endedLocked()) > 0 {
		if err := r.changeLocked(ctx, "", "", func(o cache.Orders) (cache.Orders, error) { return o, nil }); err != nil {
			r.node.part(logs.Node).Debug("cannot write the orders about what clients see to Redis; this is tried again", "error", err)
		}
	}
}

// readLocked reads the orders and follows them, if another node has written since. by and reason are those of
// an order, as far as they are known. It reports whether Redis has any, and the number of changes for clients.
func (r *rolloutOrders) readLocked(ctx context.Context, by, reason string) (has bool, changes int, err error) {
	a, log := &r.agreed, r.node.part(logs.Node)
	entry, err := a.ledger.Orders(ctx)
	if (err != nil) != a.failing {
		if a.failing = err != nil; a.failing {
			log.Warn("cannot read the orders about what clients see from Redis: this node follows those that it knows", "error", err)
		} else {
			log.Info("the orders about what clients see can be read from Redis again")
		}
	}
	var o writtenOrders
	switch {
	case err != nil:
		return false, 0, fmt.Errorf("%w: %w", errOrdersAway, err)
	case entry.Seq == 0: // never written, or lost
		return false, 0, nil
	case entry.Seq == a.seq:
		return true, 0, nil
	}
	a.seq, a.at = entry.Seq, time.Now()
	if err = errors.New("they are not signed by a node of the tier, or too long"); entry.Text != "" {
		err = json.Unmarshal([]byte(entry.Text), &o)
	}
	if err != nil {
		log.Error("the orders about what clients see are damaged in Redis: this node follows those that it knows, and writes them again", "error", err)
		return false, 0, nil
	}
	a.orders = o.Orders
	return true, r.followLocked(by, reason), nil
}

// followLocked makes this node follow the agreed orders. It returns the number of changes for its clients.
func (r *rolloutOrders) followLocked(by, reason string) (changes int) {
	is := r.agreed.orders
	for key, u := range r.agreed.unwritten {
		is = is.WithUndone(key, u)
	}
	changes = r.node.cache.Follow(is)
	if control := r.node.control.Load(); control != nil {
		control.SetFrozen(by, reason)
	}
	return changes
}

// endedLocked are the keys that are not held at an earlier revision any more, since the control plane has sent
// something else, of which Redis does not know.
func (r *rolloutOrders) endedLocked() (all []aggregation.Key) {
	is := r.node.cache.Orders()
	for key := range r.agreed.orders.Undone {
		if is.Undone[key] == nil {
			all = append(all, key)
		}
	}
	return all
}

// changeLocked changes the agreed orders, and follows them. After an error, nothing was changed, unless only the
// answer of Redis was lost.
func (r *rolloutOrders) changeLocked(ctx context.Context, by, reason string, edit func(cache.Orders) (cache.Orders, error)) error {
	a := &r.agreed
	for range mostChanged {
		if _, _, err := r.readLocked(ctx, by, reason); err != nil {
			return err
		}
		is := a.orders
		for _, key := range r.endedLocked() {
			is = is.WithUndone(key, nil)
		}
		for key, u := range a.unwritten {
			is = is.WithUndone(key, u)
		}
		is, err := edit(is)
		if err != nil {
			return err
		}
		text, err := json.Marshal(writtenOrders{is, r.node.name})
		if err != nil {
			return err
		}
		seq, err := a.ledger.WriteOrders(ctx, a.seq, string(text))
		if errors.Is(err, ledger.ErrChanged) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errOrdersAway, err)
		}
		a.seq, a.orders, a.at, a.unwritten = seq, is, time.Now(), nil
		return nil
	}
	return errors.New("other nodes get orders at the same time: repeat this one")
}

// freezeTier carries out an order to freeze or to unfreeze in a tier.
func (r *rolloutOrders) freezeTier(ctx context.Context, o ops.RolloutOrder) (done ops.RolloutOrdered, err error) {
	n, key := r.node, aggregation.Key(o.Key)
	done = ops.RolloutOrdered{Order: o.Do, Node: n.name, Key: o.Key}
	known := o.Key == "" || r.knows(ctx, o.Key)
	ctx, cancel := context.WithTimeout(ctx, ordersTimeout)
	defer cancel()
	r.mu.Lock()
	err = r.changeLocked(ctx, o.By, o.Reason, func(is cache.Orders) (cache.Orders, error) {
		switch {
		case !known && !is.Holds(key):
			return is, ops.ErrUnknownKey
		case o.Do == ops.OrderFreeze:
			return is.WithFreeze(key, cache.Freeze{Reason: o.Reason, By: o.By, Since: time.Now()}), nil
		}
		return is.Without(key), mayThaw(is, key)
	})
	if err == nil {
		done.Changes = r.followLocked(o.By, o.Reason)
	}
	r.mu.Unlock()
	if err != nil {
		return done, err
	}
	r.spread(ctx, &o, &done)
	return done, nil
}

// mayThaw says why there is nothing to end; nil if there is.
func mayThaw(o cache.Orders, key aggregation.Key) error {
	switch {
	case key == "" && o.All == nil:
		return errors.New("not all keys are frozen; 'xdsrelay rollout status' lists those that are")
	case key == "":
		return nil
	case o.All != nil:
		return errors.New("all keys are frozen: end that with --all")
	case !o.Holds(key):
		return errors.New("the key is not frozen, and nothing of it is undone")
	}
	return nil
}

// knows reports whether this node, or the owner, has a key.
func (r *rolloutOrders) knows(ctx context.Context, key string) bool {
	if r.node.cache.GroupOf(aggregation.Key(key)) != nil {
		return true
	}
	_, asked, err := askOwner[ops.Rollout](ctx, r.node, rolloutShown, key, url.Values{paramWhat: {shownStatus}})
	return asked && err == nil
}

// undoTier carries out an order to undo the newest revision of a key without a policy, as its owner.
func (r *rolloutOrders) undoTier(ctx context.Context, o ops.RolloutOrder) (done ops.RolloutOrdered, err error) {
	ctx, cancel := context.WithTimeout(ctx, ordersTimeout)
	defer cancel()
	if done, err = r.undoAgreed(ctx, &o); err == nil && done.Note == "" {
		r.spread(ctx, &o, &done)
	}
	return done, err
}

// undoAgreed undoes the newest revision, and writes the order.
func (r *rolloutOrders) undoAgreed(ctx context.Context, o *ops.RolloutOrder) (done ops.RolloutOrdered, err error) {
	n, key := r.node, aggregation.Key(o.Key)
	done = ops.RolloutOrdered{Order: o.Do, Node: n.name, Key: o.Key}
	if n.cache.GroupOf(key) == nil {
		return done, ops.ErrUnknownKey
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, _, err = r.readLocked(ctx, o.By, o.Reason); err != nil {
		return done, err
	}
	var u cache.Undone
	if u, done.Changes, err = n.cache.Undo(key, cache.Freeze{Reason: o.Reason, By: o.By, Since: time.Now()}); err != nil {
		return done, err
	}
	done.Revisions = u.Revisions
	a := &r.agreed
	if a.unwritten == nil {
		a.unwritten = make(map[aggregation.Key]*cache.Undone)
	}
	a.unwritten[key] = n.cache.Orders().Undone[key]
	if err := r.changeLocked(ctx, o.By, o.Reason, func(is cache.Orders) (cache.Orders, error) { return is, nil }); err != nil {
		done.Note = "clients have the revision before, and only this node knows of the order: it is written once Redis can be reached: " + redact.Text(err.Error())
	}
	r.followLocked(o.By, o.Reason)
	return done, nil
}

// spread makes all other nodes follow an order that is written.
func (r *rolloutOrders) spread(ctx context.Context, o *ops.RolloutOrder, done *ops.RolloutOrdered) {
	n := r.node
	answers, silent := ops.AskAll[ordersFollowed](ctx, n.everybody(), rolloutFollow, url.Values{paramBy: {o.By}, ops.ParamReason: {o.Reason}}, func(node string) bool { return node != n.name })
	for _, a := range answers {
		done.Changes = max(done.Changes, a.Changes)
	}
	var late []string
	for _, s := range silent {
		late = append(late, s.Node)
	}
	if slices.Sort(late); len(late) > 0 {
		done.Note = fmt.Sprintf("%s did not answer: a node follows the order within %s once it reaches Redis", strings.Join(late, ", "), ordersEvery)
	}
	n.part(logs.Node).Warn("order about what clients see", "order", o.Do, "key", redact.Short(o.Key, maxOrderText), "reason", redact.Short(o.Reason, maxOrderText), "identity", redact.Short(o.By, maxOrderText), "changes", done.Changes, "nodes", len(answers)+1)
}

// answerFollow reads the orders for another node, which has written some.
func (r *rolloutOrders) answerFollow(ctx context.Context, q url.Values) (any, error) {
	if r.agreed.ledger == nil {
		return ordersFollowed{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, changes, err := r.readLocked(ctx, redact.Short(q.Get(paramBy), maxOrderText), redact.Short(q.Get(ops.ParamReason), maxOrderText))
	if err != nil {
		return nil, err
	}
	return ordersFollowed{r.agreed.seq, changes}, nil
}
