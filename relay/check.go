package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"xdsrelay/relay/tier"
	"xdsrelay/shard"
)

// settleTime is what a key may take to come from where the members say.
const settleTime = 2 * time.Second

// Check cross-checks the state of cache and streams, and of the node's place in its
// tier, and compares it with the heads. It returns a sentence for each contradiction, and costs as much as all that is
// held; where keys are not where they should be, it waits for them for a moment.
func (n *Node) Check() []string {
	wrong := append(n.cache.Check(), n.fanout.Check()...)
	misplaced := n.misplacedOrBehind()
	if len(misplaced) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		<-ctx.Done()
		// What moved meanwhile was on its way; what is wrong twice is wrong.
		again := n.misplacedOrBehind()
		misplaced = slices.DeleteFunc(misplaced, func(s string) bool { return !slices.Contains(again, s) })
	}
	return append(wrong, misplaced...)
}

func (n *Node) misplacedOrBehind() []string { return append(n.misplaced(), n.checkHeads()...) }

// misplaced compares where keys come from with what the members say.
func (n *Node) misplaced() (wrong []string) {
	view := n.members.View()
	known := slices.ContainsFunc(view.Members(), func(m shard.Member) bool { return m.Name == n.name })
	if !known && n.state.Load() == serving {
		wrong = append(wrong, fmt.Sprintf("node %q is not in its own list of nodes", n.name))
	}
	for key, place := range n.tier.Places() {
		owner, ok := view.Owner(key)
		switch mine := ok && n.tier.IsSelf(owner); {
		case place.State == tier.Owner && ok && !mine:
			wrong = append(wrong, fmt.Sprintf("key %q is from the control plane as this node's own, but %q owns it", key, owner.Name))
		case place.State == tier.Follower && mine:
			wrong = append(wrong, fmt.Sprintf("key %q is from %q, but this node owns it", key, place.Owner))
		case place.State == tier.Follower && ok && place.Owner != owner.Name:
			wrong = append(wrong, fmt.Sprintf("key %q is from %q, but %q owns it", key, place.Owner, owner.Name))
		}
	}
	slices.Sort(wrong)
	return wrong
}
