package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache"
)

// FrozenKeys are the orders of operators by which clients of a node get no changes.
type FrozenKeys struct {
	// All says that all keys are frozen. Keys is how many are frozen by their name, and Undone how many
	// are held at an earlier revision.
	All    bool `json:"all,omitempty"`
	Keys   int  `json:"keys,omitempty"`
	Undone int  `json:"undone,omitempty"`
	// Since is the time of the oldest order, and Reasons are those of a few orders.
	Since   time.Time `json:"since"`
	Reasons []string  `json:"reasons"`
}

// mostFreezes bounds the orders whose reasons are shown.
const mostFreezes = 5

// FrozenBy sums up orders; nil if there are none.
func FrozenBy(o cache.Orders) *FrozenKeys {
	if o.All == nil && len(o.Keys)+len(o.Undone) == 0 {
		return nil
	}
	k := &FrozenKeys{All: o.All != nil, Keys: len(o.Keys), Undone: len(o.Undone)}
	add := func(what string, f *cache.Freeze) {
		if k.Since.IsZero() || f.Since.Before(k.Since) {
			k.Since = f.Since
		}
		if len(k.Reasons) < mostFreezes {
			k.Reasons = append(k.Reasons, what+": "+f.Reason)
		}
	}
	if o.All != nil {
		add("all keys", o.All)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Keys)) {
		add(string(key), o.Keys[key])
	}
	for _, key := range slices.Sorted(maps.Keys(o.Undone)) {
		add(string(key), &o.Undone[key].Freeze)
	}
	return k
}

// warning is what an operator has to know who did not give the orders.
func (k *FrozenKeys) warning(node string) Warning {
	w := Warning{Level: levelWarning, Kind: "frozen", Node: node, Since: k.Since, Detail: strings.Join(k.Reasons, "\n")}
	switch {
	case k.All:
		w.Text = fmt.Sprintf("All keys of node %s are frozen: clients get only new endpoints and secrets; end that with 'xdsrelay rollout unfreeze --all'", node)
	case k.Keys > 0:
		w.Text = fmt.Sprintf("Node %s has %s frozen: clients get only new endpoints and secrets; end that with 'xdsrelay rollout unfreeze KEY'", node, count(k.Keys, "key"))
	default:
		w.Text = fmt.Sprintf("Node %s holds %s at an earlier revision, until the control plane sends something else for what was undone; see 'xdsrelay rollout status'", node, count(k.Undone, "key"))
	}
	return w
}
