package ops

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollouts"
)

// What happens to keys now: what a page asks for every few seconds, so it is bounded.

const (
	// mostActive bounds the keys, and mostDecided the decisions of each.
	mostActive  = 100
	mostDecided = 3
	// recently is for how long a key is described after its rollout has ended.
	recently = time.Hour
)

// RolloutActive describes the keys that are held, or have a rollout in progress, or had one within the last hour.
func (l Local) RolloutActive(orders cache.Orders, control *rollouts.Controller) Rollout {
	out, _ := l.RolloutStatus("", orders, control) // only a key that was named can be unknown
	now := time.Now()
	out.Keys = slices.DeleteFunc(out.Keys, func(k RolloutKey) bool {
		if k.Rollout == nil || k.isActive(now) {
			return false
		}
		if k.isDecided() {
			out.Idle++
		}
		return true
	})
	for i := range out.Keys {
		if r := out.Keys[i].Rollout; r != nil {
			r.History = r.History[max(0, len(r.History)-mostDecided):]
		}
	}
	return out
}

// isActive reports whether something happens to a key with a policy, or did a short time ago.
func (k *RolloutKey) isActive(now time.Time) bool {
	r := k.Rollout
	switch n := len(r.History); {
	case len(k.Pending) > 0, r.Revision != "":
		return true
	case !k.isDecided():
		return false
	case k.Freeze != nil, k.Undone != nil, r.State != rollouts.StateIdle:
		return true
	default:
		return n > 0 && now.Sub(r.History[n-1].At) < recently
	}
}

// MergeActive makes one answer of those of all nodes: those keys first that an operator should look at. What
// a node says that does not decide counts only if one does not answer.
func MergeActive(node string, all []Rollout, silent []Silent) Rollout {
	out := MergeRollouts(node, all, silent)
	if len(silent) == 0 {
		out.Keys = slices.DeleteFunc(out.Keys, func(k RolloutKey) bool { return k.Rollout != nil && !k.isDecided() })
	}
	slices.SortStableFunc(out.Keys, func(a, b RolloutKey) int { return cmp.Compare(a.urgency(), b.urgency()) })
	if n := len(out.Keys) - mostActive; n > 0 {
		out.Keys, out.Omitted = out.Keys[:mostActive], n
	}
	return out
}

// urgency orders keys: the lowest first.
func (k *RolloutKey) urgency() int {
	r := k.Rollout
	switch {
	case r == nil || k.Freeze != nil || k.Undone != nil:
		return 2
	case !r.Observes() && (strings.HasPrefix(r.State, rollouts.StateHeld) || r.IsOverdue):
		return 0
	case r.State != rollouts.StateIdle:
		return 1
	}
	return 3
}
