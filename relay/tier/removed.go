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
	"xdsrelay/relay/pause"
)

// An owner that was disconnected during a mass removal may still hold back removals that other nodes
// have done. To follow it would bring the removed resources back to clients. So a node that has
// removed anything first asks the owner which removals it holds back, and sends it the names of
// those that it has done itself. The owner then does them, too.

const (
	// removedPath is this question, with the key, the leg, and the names for the owner to remove.
	removedPath = "removed"
	// paramRemoved is followed by a type URL.
	paramRemoved = "removed:"
	// removedPause is the time between two attempts to ask.
	removedPause = 100 * time.Millisecond
)

// heldBack is the answer to removedPath.
type heldBack struct {
	// Names are those whose removals the removal guard still holds back, by type URL.
	Names map[string][]string `json:"names,omitempty"`
}

// answerRemoved answers removedPath, also for an idle key: its hold does not end, since nothing can
// confirm the removals, and the asking node would be served what is held back once it follows.
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
			t.cfg.Logger.Info("held removals applied: another node applied them", "key", g.Key, "removals", n)
		}
	}
	return heldBack{Names: g.HeldBack(leg)}, nil
}

// shareRemoved makes the owner do the removals that this node has done. It returns when they are
// done, when the owner does not know the question, or when ctx ends.
func (k *keeper) shareRemoved(ctx context.Context, p *peer) {
	if p.plane == nil {
		return
	}
	for k.feed.HasRemoved() {
		answer, err := k.askRemoved(ctx, p, nil)
		if names := k.feed.Removed(answer.Names); len(names) > 0 {
			_, err = k.askRemoved(ctx, p, names)
		}
		if status.Code(err) != codes.Unavailable || !pause.For(ctx, removedPause) {
			return
		}
	}
}

// askRemoved sends removedPath to the owner once.
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
