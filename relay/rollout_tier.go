package relay

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/rollouts"
	"xdsrelay/relay/tier"
	"xdsrelay/shard"
	"xdsrelay/shard/ledger"
)

// What nodes ask each other about rollouts.
const (
	// askRollouts carries a message of package rollouts.
	askRollouts    = "rollouts"
	paramMessage   = "message"
	rolloutShown   = "rollout-shown" // what the owner of a key would answer an operator
	rolloutOrdered = "rollout-order"
	paramWhat      = "what"
	paramBy        = "by"
)

// ownerTimeout bounds how long the owner of a key may take to answer an operator.
const ownerTimeout = 5 * time.Second

// addRollouts makes the owner of a key decide about its revisions.
func (n *Node) addRollouts(cfg *tier.Config) {
	if n.store == nil {
		return
	}
	cfg.Own = append(cfg.Own, func(g *cache.Group) (end func()) { return n.control.Load().Own(g) })
}

// rolloutTier is how the nodes of the tier agree on rollouts; nil where there is no Redis for that.
func (n *Node) rolloutTier() *rollouts.Tier {
	if n.store == nil {
		return nil
	}
	n.tier.Announce(func(s *shard.Status) { s.Rollouts = true })
	return &rollouts.Tier{
		Node: n.name, Ledger: ledger.New(n.store, n.peers.door.token), Epoch: n.heads.Epoch, Followers: n.fanout.PeerNodes,
		Members:  n.memberNames,
		Exchange: n.exchangeRollouts, Able: n.rolloutsEverywhere, Seal: n.sealFormer, Open: n.openFormer,
	}
}

// errNoStore: only policies that hold nothing back work without a store.
var errNoStore = errors.New("last_known_good.store is none")

// sealFormer returns what clients had before a revision as Redis may have it.
func (n *Node) sealFormer(key string, f *cache.Former) ([]byte, error) {
	if n.keeper == nil {
		return nil, errNoStore
	}
	return n.keeper.SealFormer(key, f)
}

// openFormer is the reverse of sealFormer.
func (n *Node) openFormer(key string, sealed []byte) (*cache.Former, error) {
	if n.keeper == nil {
		return nil, errNoStore
	}
	return n.keeper.OpenFormer(key, sealed)
}

// rolloutsEverywhere reports whether all nodes of the tier carry out rollouts.
func (n *Node) rolloutsEverywhere() bool {
	for _, m := range n.members.View().Members() {
		if !n.tier.IsSelf(m) && !m.Rollouts {
			return false
		}
	}
	return true
}

// clientsOfAll is the number of clients of the tier, as far as its nodes have announced it.
func (n *Node) clientsOfAll() int {
	all := n.fanout.Count()
	for _, m := range n.members.View().Members() {
		if !n.tier.IsSelf(m) {
			all += m.Clients
		}
	}
	return all
}

// exchangeRollouts sends a message to another node. It is one parameter of a question.
func (n *Node) exchangeRollouts(ctx context.Context, node string, m rollouts.Exchange) (answer rollouts.Exchange, err error) {
	to, ok := n.memberNamed(node)
	if !ok {
		return answer, fmt.Errorf("%s is no member of the tier", node)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return answer, err
	}
	reply, err := n.tier.Ask(ctx, to, askRollouts+"?"+paramMessage+"="+base64.RawURLEncoding.EncodeToString(text))
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(reply, &answer)
	return answer, err
}

func (n *Node) memberNames() (names []string) {
	for _, m := range n.members.View().Members() {
		names = append(names, m.Name)
	}
	return names
}

func (n *Node) memberNamed(name string) (m shard.Member, ok bool) {
	for _, m := range n.members.View().Members() {
		if m.Name == name {
			return m, true
		}
	}
	return m, false
}

// answerRollouts answers the questions of other nodes about rollouts.
func (n *Node) answerRollouts() {
	n.tier.Handle(askRollouts, func(ctx context.Context, q url.Values) (any, error) {
		if err := n.trustsOrders(ctx); err != nil {
			return nil, err // it has content for clients
		}
		text, err := base64.RawURLEncoding.DecodeString(q.Get(paramMessage))
		var m rollouts.Exchange
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "a message about rollouts: %v", err)
		}
		control := n.control.Load()
		if control == nil || n.store == nil {
			return rollouts.Exchange{}, nil
		}
		return control.Received(m), nil
	}, paramMessage)
	n.tier.Handle(rolloutFollow, n.rollouts.answerFollow, paramBy, ops.ParamReason)
	n.tier.Handle(rolloutShown, func(_ context.Context, q url.Values) (any, error) {
		return n.shownHere(q.Get(paramWhat), q.Get(ops.ParamKey))
	}, paramWhat, ops.ParamKey)
	n.tier.Handle(rolloutOrdered, func(ctx context.Context, q url.Values) (any, error) {
		if err := n.trustsOrders(ctx); err != nil {
			return nil, err
		}
		done, err := n.rollouts.orderHere(ctx, ops.RolloutOrder{Do: q.Get(paramWhat), Key: q.Get(ops.ParamKey), Reason: q.Get(ops.ParamReason), By: q.Get(paramBy)})
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		return done, nil
	}, paramWhat, ops.ParamKey, ops.ParamReason, paramBy)
}

// What operators ask about the rollout of a key.
const (
	shownStatus  = "status"
	shownActive  = "active"
	shownHistory = "history"
	shownDiff    = "diff"
	shownPlan    = "plan"
)

// shownHere answers for this node.
func (n *Node) shownHere(what, key string) (any, error) {
	local := n.own()
	switch what {
	case shownStatus:
		return local.RolloutStatus(key, n.cache.Orders(), n.control.Load())
	case shownActive:
		return local.RolloutActive(n.cache.Orders(), n.control.Load()), nil
	case shownHistory:
		return local.RolloutHistory(key, n.control.Load())
	case shownDiff:
		return local.RolloutDiff(key)
	case shownPlan:
		return n.planHere(key)
	}
	return nil, status.Errorf(codes.InvalidArgument, "%q is no question about a rollout", what)
}

// askOwner asks the owner of a key, if that is another node; false if it is not.
func askOwner[T any](ctx context.Context, n *Node, path, key string, q url.Values) (answer T, asked bool, err error) {
	owner, ok := n.members.View().Owner(key)
	if key == "" || !n.inTier() || !ok || n.tier.IsSelf(owner) {
		return answer, false, nil
	}
	ctx, end := context.WithTimeout(ctx, ownerTimeout)
	defer end()
	q.Set(ops.ParamKey, key)
	reply, err := n.tier.Ask(ctx, owner, path+"?"+q.Encode())
	if err != nil {
		if s, is := status.FromError(err); is && s.Code() != codes.Unavailable && s.Code() != codes.DeadlineExceeded {
			err = errors.New(s.Message())
		} else {
			err = fmt.Errorf("the owner of the key, %s, does not answer: %w", owner.Name, err)
		}
		return answer, true, err
	}
	err = json.Unmarshal(reply, &answer)
	return answer, true, err
}

// showOf returns how one of the questions about a key is answered on any node: by its owner.
func showOf[T any](n *Node, what string) func(key string) (T, error) {
	return func(key string) (T, error) {
		answer, asked, err := askOwner[T](context.Background(), n, rolloutShown, key, url.Values{paramWhat: {what}})
		if asked && err == nil {
			return answer, nil
		}
		here, hereErr := n.shownHere(what, key)
		if hereErr != nil {
			var none T
			return none, errors.Join(err, hereErr)
		}
		return here.(T), err
	}
}

// statusOfAll returns the rollouts of a key, or with "" of all keys, of all nodes: what the node says that
// decides.
func (n *Node) statusOfAll(key string) (ops.Rollout, error) {
	if key != "" || !n.inTier() {
		return showOf[ops.Rollout](n, shownStatus)(key)
	}
	ctx, end := context.WithTimeout(context.Background(), ownerTimeout)
	defer end()
	answers, silent := ops.AskAll[ops.Rollout](ctx, n.everybody(), rolloutShown, url.Values{paramWhat: {shownStatus}}, nil)
	return ops.MergeRollouts(n.name, answers, silent), nil
}

// activeOfAll returns what happens to keys now, on all nodes.
func (n *Node) activeOfAll(ctx context.Context) ops.Rollout {
	if !n.inTier() {
		return ops.MergeActive(n.name, []ops.Rollout{n.own().RolloutActive(n.cache.Orders(), n.control.Load())}, nil)
	}
	answers, silent := ops.AskAll[ops.Rollout](ctx, n.everybody(), rolloutShown, url.Values{paramWhat: {shownActive}}, nil)
	return ops.MergeActive(n.name, answers, silent)
}
