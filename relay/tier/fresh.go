package tier

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/pause"
	"xdsrelay/shard"
)

// A node that asks the origin itself, because the owner was unreachable, may have newer content than
// the owner: an owner that has lost the origin, too, still holds the content from before. To follow
// it would roll clients back. So the node first asks the owner whether the origin has confirmed its
// content.
//
// An owner that did not ask this node before it asked the origin does not know what this node holds
// back (K16). It cannot ask a node that it does not see. Nor does it know what the owner before it
// held back for this node: so a node that followed that one asks the origin itself, and its own
// removal guard judges the answer. And it may hold back again what this node has removed, once it has
// restored its last known good state (see shareRemoved).

const (
	// freshPath is the question, with the key, the leg and the name of the node that asks.
	freshPath = "fresh"
	paramNode = "node"
)

// freshness is the answer to freshPath.
type freshness struct {
	Fresh bool `json:"fresh"`
	// Unmet says that the owner has not asked the node that asks this for what it holds.
	Unmet bool `json:"unmet,omitempty"`
	// Unseen says that the node that asks this is no member that the owner sees, so it cannot ask it.
	Unseen bool `json:"unseen,omitempty"`
}

// answerFresh answers freshPath. A key that this node follows is not fresh: this node has yet to
// notice that it is the owner, and will ask the origin then. A key without a keeper is fresh,
// since nothing old is held of it.
func (t *Tier) answerFresh(_ context.Context, query url.Values) (any, error) {
	k := t.feedKeeper(query)
	fresh := k == nil || k.state().fromOrigin() && k.feed.Fresh()
	node := query.Get(paramNode)
	sees := slices.ContainsFunc(t.cfg.Members.View().Members(), func(m shard.Member) bool { return m.Name == node })
	return freshness{Fresh: fresh, Unmet: !sees || k != nil && k.feed.Unmet(node), Unseen: !sees}, nil
}

// feedKeeper returns the keeper of the feed that a question names; nil if there is none.
func (t *Tier) feedKeeper(query url.Values) *keeper {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.keepers[query.Get(paramKey)] {
		if k.leg == query.Get(paramLeg) && k.feed != nil {
			return k
		}
	}
	return nil
}

// ownerIsFresh asks the owner. An owner that fails to answer is not fresh, and is asked again
// later. One that does not know the question counts as fresh.
func (k *keeper) ownerIsFresh(ctx context.Context) bool {
	if k.feed == nil || k.peer.plane == nil {
		return true
	}
	answer, err := k.askFresh(ctx, k.peer)
	if err != nil {
		return status.Code(err) == codes.Unimplemented
	}
	switch {
	case !answer.Fresh, answer.Unmet && len(k.feed.Group().HeldBack(k.leg)) > 0, answer.Unseen && k.feed.HasRemoved():
		return false
	}
	return true
}

// askFresh sends freshPath to the owner once.
func (k *keeper) askFresh(ctx context.Context, p *peer) (answer freshness, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.tier.cfg.OwnerTimeout)
	defer cancel()
	path := freshPath + "?" + url.Values{paramKey: {k.key}, paramLeg: {k.leg}, paramNode: {k.tier.Self().Name}}.Encode()
	text, err := ask(ctx, p.plane, path)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

// errUnmet is why a node does not follow a new owner.
var errUnmet = status.Error(codes.FailedPrecondition, "the new owner has not asked this node what it holds")

// isUnmet reports whether a new owner has not asked this node for what it holds, and does not do so
// within OwnerTimeout, although the removal guard would hold back that it is removed. It returns
// false for an owner that cannot be asked.
func (k *keeper) isUnmet(ctx context.Context, p *peer) bool {
	if k.feed == nil || p.plane == nil || !k.feed.Guarded() {
		return false
	}
	for until := time.Now().Add(k.tier.cfg.OwnerTimeout); ; {
		answer, err := k.askFresh(ctx, p)
		switch {
		case err != nil && status.Code(err) != codes.Unavailable, err == nil && !answer.Unmet:
			return false
		case err == nil && !time.Now().Before(until):
			return true
		case !pause.For(ctx, freshPause):
			return false
		}
	}
}
