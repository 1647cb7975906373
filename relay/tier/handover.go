package tier

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/shard"
)

// handOverPause is between two looks at what is still to be handed over.
const handOverPause = 20 * time.Millisecond

// HandOver waits, after the node has left the members, until the others get their
// keys elsewhere: until nothing is streamed from the origin any more that another
// node owns now, or ctx ends. It tells how many keys are left then.
func (t *Tier) HandOver(ctx context.Context) (left int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if left = t.toHandOver(); left == 0 {
			return 0
		}
		timer.Reset(handOverPause)
		select {
		case <-ctx.Done():
			return left
		case <-timer.C:
		}
	}
}

// PassOn makes the new owners of groups ask for what is held of them, where these may not get
// it from the origin, until ctx ends. It returns for how many it could not.
func (t *Tier) PassOn(ctx context.Context, groups []*cache.Group) (left int) {
	if t.cfg.Peers == nil {
		return 0
	}
	view := t.cfg.Members.View()
	var mu sync.Mutex
	var sending sync.WaitGroup
	slots := make(chan struct{}, passedOnAtOnce)
	for _, g := range groups {
		owner, ok := view.Owner(string(g.Key))
		if !ok || t.IsSelf(owner) || !t.passesOn(g, owner) {
			continue
		}
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			if err := t.passOn(ctx, g, owner); err != nil {
				t.cfg.Logger.Warn("what is held of a key could not be handed over to another node", "key", g.Key, "node", owner.Name, "error", err)
				mu.Lock()
				defer mu.Unlock()
				left++
			}
		})
	}
	sending.Wait()
	return left
}

// passedOnAtOnce is how many keys are handed over at a time.
const passedOnAtOnce = 16

// passesOn reports whether the new owner of a group may not get it from the origin, or would
// not know what the guard holds back.
func (t *Tier) passesOn(g *cache.Group, owner shard.Member) bool {
	if owner.Cut {
		return true
	}
	if t.cfg.Origin.Reach != nil {
		if _, ready := t.cfg.Origin.Reach(); !ready {
			return true
		}
	}
	return g.Unreachable() || slices.ContainsFunc(g.Held(), func(k cache.Kept) bool { return k.HeldBack })
}

func (t *Tier) passOn(ctx context.Context, g *cache.Group, to shard.Member) error {
	if len(g.Held()) == 0 {
		return nil
	}
	query := url.Values{paramKey: {string(g.Key)}, paramFrom: {t.Self().Name}}
	_, err := t.cfg.Peers.Ask(ctx, to, adoptPath+"?"+query.Encode())
	return err
}

// toHandOver is how many keys come from the origin although another node owns them. A
// key whose owner cannot be reached is not among them: waiting would not help.
func (t *Tier) toHandOver() (left int) {
	view := t.cfg.Members.View()
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.allLocked() {
		owner, ok := view.Owner(k.key)
		if !ok || t.IsSelf(owner) {
			continue
		}
		n, _ := k.peers()
		if s := k.state(); s == Owner || s == ForPeers && n > 0 {
			left++
		}
	}
	return left
}
