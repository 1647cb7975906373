package tier

import (
	"context"
	"time"
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
