package tier

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
)

// An owner that heard of a mass removal later than other nodes, since it was cut off, may still
// hold back what these have removed. To follow it then would give that back to clients. So a
// node that has removed anything asks the owner what it holds back before it follows it, and
// names what of that it has removed itself. The owner then removes that, too.

const (
	// removedPath is the question, with the key, the leg, and names for the owner to remove.
	removedPath = "removed"
	// paramRemoved is followed by a type URL.
	paramRemoved = "removed:"
	// removedPause is between two attempts to ask.
	removedPause = 100 * time.Millisecond
)

// heldBack is the answer.
type heldBack struct {
	// Names are those whose removals the removal guard still holds back, by type URL.
	Names map[string][]string `json:"names,omitempty"`
}

// answerRemoved answers it, also for an idle key: its hold does not end, since nothing can confirm
// the removals, and the node that asks would be served what is held back once it follows.
func (t *Tier) answerRemoved(_ context.Context, query url.Values) (any, error) {
	var g *cache.Group
	if t.cfg.Group != nil {
		g = t.cfg.Group(aggregation.Key(query.Get(paramKey)))
	}
	if g == nil {
		return heldBack{}, nil
	}
	leg := query.Get(paramLeg)
	removed := make(map[string][]string)
	for param, names := range query {
		if typ, is := strings.CutPrefix(param, paramRemoved); is {
			removed[typ] = names
		}
	}
	if len(removed) > 0 {
		if n := g.RemoveHeld(leg, removed); n > 0 {
			t.cfg.Logger.Info("removals that were held back are done, since another node has done them", "key", g.Key, "removals", n)
		}
	}
	return heldBack{Names: g.HeldBack(leg)}, nil
}

// shareRemoved makes the owner remove what this node has removed, until that is done, the owner
// turns out not to know the question, or ctx ends.
func (k *keeper) shareRemoved(ctx context.Context, p *peer) {
	if p.plane == nil {
		return
	}
	for k.feed.HasRemoved() {
		answer, err := k.askRemoved(ctx, p, nil)
		if names := k.feed.Removed(answer.Names); len(names) > 0 {
			_, err = k.askRemoved(ctx, p, names)
		}
		if status.Code(err) != codes.Unavailable || !pauseFor(ctx, removedPause) {
			return
		}
	}
}

// askRemoved asks the owner once.
func (k *keeper) askRemoved(ctx context.Context, p *peer, names map[string][]string) (answer heldBack, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.tier.cfg.OwnerTimeout)
	defer cancel()
	query := url.Values{paramKey: {k.key}, paramLeg: {k.leg}}
	for typ, of := range names {
		query[paramRemoved+typ] = of
	}
	text, err := ask(ctx, p.plane, removedPath+"?"+query.Encode())
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(text, &answer)
	return answer, err
}
