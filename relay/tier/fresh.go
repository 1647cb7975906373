package tier

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/shard"
)

// A node that gets a key from the origin, since its owner could not be asked, may know
// of changes of which the owner does not: an owner that has lost the origin, too, still
// holds what was before. To follow it then would send clients back. So the node asks
// first whether the owner has the key from the origin as it is now.
//
// Nor does an owner know what this node holds back (K16), unless it has asked for that before it
// asked the origin. It cannot have asked a node that it does not see.

const (
	// freshPath is the question, with the key, the leg and the name of the node that asks.
	freshPath = "fresh"
	paramNode = "node"
)

// freshness is the answer.
type freshness struct {
	Fresh bool `json:"fresh"`
	// Unmet says that the owner does not know what the node that asks holds.
	Unmet bool `json:"unmet,omitempty"`
}

// answerFresh answers it. A key that comes from another node here does not count as
// fresh: this node does not know yet that it owns it, and will ask the origin. Nothing
// is held of a key that does not come from anywhere.
func (t *Tier) answerFresh(_ context.Context, query url.Values) (any, error) {
	k := t.feedKeeper(query)
	fresh := k == nil || k.state().fromOrigin() && k.feed.Fresh()
	node := query.Get(paramNode)
	sees := slices.ContainsFunc(t.cfg.Members.View().Members(), func(m shard.Member) bool { return m.Name == node })
	return freshness{Fresh: fresh, Unmet: !sees || k != nil && k.feed.Unmet(node)}, nil
}

// feedKeeper returns the keeper of the feed that a question is about; nil if there is none.
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

// ownerIsFresh asks the owner. One that cannot answer is asked again later, one that
// does not know the question is taken as it is.
func (k *keeper) ownerIsFresh(ctx context.Context) bool {
	if k.feed == nil || k.peer.plane == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, k.tier.cfg.OwnerTimeout)
	defer cancel()
	path := freshPath + "?" + url.Values{paramKey: {k.key}, paramLeg: {k.leg}, paramNode: {k.tier.Self().Name}}.Encode()
	text, err := ask(ctx, k.peer.plane, path)
	if err != nil {
		return status.Code(err) == codes.Unimplemented
	}
	var answer freshness
	if json.Unmarshal(text, &answer) != nil || !answer.Fresh {
		return false
	}
	return !answer.Unmet || len(k.feed.Group().HeldBack(k.leg)) == 0
}
