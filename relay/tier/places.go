package tier

import "time"

// Place is where a key comes from on this node.
type Place struct {
	State State
	// Owner is the node that this one follows, or should follow; empty if this node is the owner.
	Owner string
	// Since is when this state began.
	Since time.Time
}

// Places returns where each key of this node comes from. A key with several keepers, for further
// legs or load reports, has the place of its first leg.
func (t *Tier) Places() map[string]Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	places := make(map[string]Place, len(t.keepers))
	for k := range t.allLocked() {
		k.mu.Lock()
		shown := k.shown
		k.mu.Unlock()
		if _, known := places[k.key]; shown.state != "" && (k.hooks.group != nil || !known) {
			places[k.key] = Place{State: shown.state, Owner: shown.owner, Since: shown.since}
		}
	}
	return places
}
