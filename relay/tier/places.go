package tier

import "time"

// Place is where a key comes from.
type Place struct {
	State State
	// Owner is the node that is followed, or should be; empty where that is this one.
	Owner string
	// Since is when that began.
	Since time.Time
}

// Places tells where each key that this node keeps in step comes from. What has legs
// of its own, or load reports, goes as the rest of its key does.
func (t *Tier) Places() map[string]Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	places := make(map[string]Place, len(t.keepers))
	for k := range t.allLocked() {
		k.mu.Lock()
		shown := k.shown
		k.mu.Unlock()
		if _, known := places[k.key]; shown.state != "" && (k.own != nil || !known) {
			places[k.key] = Place{State: shown.state, Owner: shown.owner, Since: shown.since}
		}
	}
	return places
}
