package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ready returns nil while the node should get clients, and why not otherwise: before it
// serves, once it drains, and where it lacks what clients come for. That goes by the keys
// that have clients here: the node is not ready while no origin of any can be reached and
// none has any content (K12), and while some have none and another node, which may have it,
// could not be asked. Where all nodes were asked, a client finds no more elsewhere, and the
// node is ready. A node without clients is ready: it cannot know better.
func (n *Node) Ready() error {
	switch n.state.Load() {
	case starting:
		return errors.New("starting")
	case draining:
		return errors.New("draining")
	}
	if wait := n.firstAnswer(); wait > 0 {
		return fmt.Errorf("starting: waiting up to %s for the list of nodes of the tier", wait)
	}
	all, empty, why := 0, 0, ""
	var unasked []string
	for _, k := range n.cache.GroupInfos() {
		if k.Clients == 0 {
			continue
		}
		all++
		if text := k.Empty(); text != "" {
			empty, why = empty+1, text
			unasked = append(unasked, n.tier.Unasked(k.Key)...)
		}
	}
	switch {
	case empty == 0:
		return nil
	case empty == all:
		return fmt.Errorf("no key has any state: %s", why)
	case len(unasked) > 0:
		slices.Sort(unasked)
		return fmt.Errorf("%d of %d keys with clients have no configuration, and nodes that may have it cannot be asked (%s); the control plane is unreachable: %s",
			empty, all, strings.Join(slices.Compact(unasked), ", "), why)
	}
	return nil
}

// firstAnswer is how long the node may still wait to hear which nodes are in the tier:
// until then it takes itself for the only one, and has nobody to ask for content. Zero once
// it has heard, or the time is over.
func (n *Node) firstAnswer() time.Duration {
	if n.members.Answered() {
		return 0
	}
	return max(0, n.cfg.Tier.OwnerTimeout-time.Since(n.samples.began)).Round(time.Millisecond)
}
