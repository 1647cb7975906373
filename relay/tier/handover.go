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

// handOverPause is the time between two checks of how many keys are left to hand over.
const handOverPause = 20 * time.Millisecond

// HandOver waits, after this node has left the members, until the other nodes get their keys from
// the new owners: until this node streams no key from the origin that another node owns now, or
// ctx ends. It returns how many keys are left.
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

// PassOn makes the new owners of groups fetch the content from this node, if they may not get it
// from the origin. It stops when ctx ends, and returns how many groups it could not pass on.
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
				t.cfg.Logger.Warn("handing over the state of a key failed", "key", g.Key, "node", owner.Name, "error", err)
				mu.Lock()
				defer mu.Unlock()
				left++
			}
		})
	}
	sending.Wait()
	return left
}

// passedOnAtOnce bounds how many keys are passed on at the same time.
const passedOnAtOnce = 16

// passesOn reports whether the new owner of a group may be unable to get it from the origin, or
// would not know which removals the removal guard holds back.
func (t *Tier) passesOn(g *cache.Group, owner shard.Member) bool {
	if owner.Cut {
		return true
	}
	if t.cfg.Origin.Reach != nil {
		if _, ready := t.cfg.Origin.Reach(); !ready {
			return true
		}
	}
	return g.Unreachable() || slices.ContainsFunc(g.Snapshots(), func(k cache.Snapshot) bool { return k.HeldBack })
}

func (t *Tier) passOn(ctx context.Context, g *cache.Group, to shard.Member) error {
	if len(g.Snapshots()) == 0 {
		return nil
	}
	query := url.Values{paramKey: {string(g.Key)}, paramFrom: {t.Self().Name}, paramAt: {t.Self().Peer}}
	_, err := t.cfg.Peers.Ask(ctx, to, adoptPath+"?"+query.Encode())
	return err
}

// toHandOver returns how many keys come from the origin although another node owns them. It does
// not count a key whose owner is unreachable: waiting would not help.
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
