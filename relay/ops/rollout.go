package ops

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/cache/gate"
	"xdsrelay/relay/rollouts"
)

// RolloutKey is what a key's clients see of what its control plane sends.
type RolloutKey struct {
	Key string `json:"key"`
	// State is open, frozen, undone, staged: a rollout policy releases changes, or observed: a policy only
	// observes them.
	State string `json:"state"`
	// Stable is the revision that clients have; empty if it is not known.
	Stable string `json:"stable,omitempty"`
	// Freeze and Undone are the orders because of which changes are held back.
	Freeze *cache.Freeze `json:"freeze,omitempty"`
	Undone *cache.Undone `json:"undone,omitempty"`
	// Pending is what is held back, by type.
	Pending []RolloutPending `json:"pending"`
	// Rollout is how far the policy of the key is; nil without one.
	Rollout *rollouts.Status `json:"rollout,omitempty"`
}

// RolloutRefused is what a control plane had sent for a name, and was undone.
type RolloutRefused = cache.Refused

// RolloutPending is what is held back of a type.
type RolloutPending struct {
	Name string `json:"type"`
	cache.Pending
}

// Rollout are the keys of a node that are held, or the one that was asked for.
type Rollout struct {
	Node string `json:"node"`
	// All is the order that freezes all keys.
	All  *cache.Freeze `json:"all,omitempty"`
	Keys []RolloutKey  `json:"keys"`
	// Budget is that of the tier; nil if no key has a policy.
	Budget *RolloutBudget `json:"budget,omitempty"`
	// Idle is how many keys with a policy are left out because nothing happens to them, and Omitted how many
	// others, because there are too many.
	Idle    int `json:"idle,omitempty"`
	Omitted int `json:"omitted,omitempty"`
	// Silent are the nodes that did not answer, of which keys may be missing.
	Silent []Silent `json:"silent,omitempty"`
}

// RolloutHistory are the revisions of a key that a node remembers, the newest first.
type RolloutHistory struct {
	Key       string            `json:"key"`
	Node      string            `json:"node"`
	Revisions []RolloutRevision `json:"revisions"`
	// Decisions are the last ones of the rollout policy and of operators, the newest first.
	Decisions []RolloutDecision `json:"decisions,omitempty"`
}

// RolloutRevision is what changed of a key at about one time.
type RolloutRevision struct {
	ID    string        `json:"id,omitempty"`
	At    time.Time     `json:"at"`
	Cause cache.Cause   `json:"cause"`
	Types []RolloutType `json:"types"`
	// NotUndoable says why the revision cannot be undone; empty if it can.
	NotUndoable string `json:"not_undoable,omitempty"`
}

// RolloutType is what a revision changed of a type.
type RolloutType struct {
	Name string `json:"type"`
	cache.RevisionType
}

// RolloutDiff is how what the control plane has sent differs from what clients of a key see.
type RolloutDiff struct {
	Key   string            `json:"key"`
	Node  string            `json:"node"`
	Types []RolloutTypeDiff `json:"types"`
}

// RolloutTypeDiff is how the resources of a type differ.
type RolloutTypeDiff struct {
	URL       string         `json:"type_url"`
	Name      string         `json:"type"`
	Resources []ResourceDiff `json:"resources"`
	Omitted   int            `json:"resources_omitted,omitempty"`
}

// RolloutPlan is who would be the canaries of a key.
type RolloutPlan = rollouts.Plan

// RolloutProgress is how far the rollout of a key is.
type RolloutProgress = rollouts.Status

// RolloutArm is what was counted of the canaries of a rollout, or of their control group.
type RolloutArm = rollouts.ArmStatus

// RolloutBudget is how much of the budget is in use, and what the breaker does.
type RolloutBudget = rollouts.BudgetStatus

// RolloutTrouble is which canaries have trouble with a revision.
type RolloutTrouble = rollouts.Trouble

// RolloutDecision is a decision about a revision.
type RolloutDecision = rollouts.Decision

// RolloutOrdered is what became of an order about what clients see.
type RolloutOrdered struct {
	Order string `json:"order"`
	Node  string `json:"node"`
	// Key is empty for all keys.
	Key string `json:"key,omitempty"`
	// Changes is how many resources changed for clients.
	Changes int `json:"changes"`
	// Revisions were undone, the newest first.
	Revisions []string `json:"revisions,omitempty"`
	// Note is what the operator has to know besides; may be empty.
	Note string `json:"note,omitempty"`
}

// The orders about what clients see.
const (
	OrderFreeze   = "freeze"
	OrderUnfreeze = "unfreeze"
	OrderUndo     = "undo"
	// Those about keys with a rollout policy.
	OrderApprove = rollouts.Approve
	OrderPause   = rollouts.Pause
	OrderResume  = rollouts.Resume
	OrderAbort   = rollouts.Abort
	OrderRetry   = rollouts.Retry
	OrderPromote = rollouts.Promote
)

// RolloutOrder is an order about what clients see.
type RolloutOrder struct {
	Do     string
	Key    string // empty for all keys
	Reason string
	By     string // for the status and the log
}

// ParamReason is the parameter with the reason of an order.
const ParamReason = "reason"

// maxReason bounds the reason of an order, in bytes.
const maxReason = 500

// ErrRolloutTier refuses orders about what clients see in a tier without Redis.
var ErrRolloutTier = errors.New("this node belongs to a tier without Redis (tier.nodes), whose nodes cannot agree on an order, so nothing was changed: use tier.redis")

// Check returns what is wrong with an order.
func (o *RolloutOrder) Check(all bool) error {
	o.Reason = strings.TrimSpace(o.Reason)
	switch {
	case o.Key == "" && !all:
		return errors.New("the parameter key is missing: expected ?key=KEY, or all=true")
	case o.Key != "" && all:
		return errors.New("got key and all: expected one of them")
	case all && o.Do != OrderFreeze && o.Do != OrderUnfreeze && o.Do != OrderResume:
		return errors.New(o.Do + " is about one key: expected ?key=KEY")
	case o.Reason == "" && o.needsReason():
		return errors.New("the parameter reason is missing: it is shown to others who wonder why clients get no changes")
	case len(o.Reason) > maxReason:
		return errors.New("the reason is too long: expected at most 500 bytes")
	}
	return nil
}

// needsReason reports whether others will wonder why the order was given.
func (o *RolloutOrder) needsReason() bool {
	switch o.Do {
	case OrderFreeze, OrderUndo, OrderPromote, OrderPause, OrderAbort:
		return true
	}
	return false
}

// RolloutStatus describes a key, or with "" all keys that are held.
func (l Local) RolloutStatus(key string, orders cache.Orders, control *rollouts.Controller) (Rollout, error) {
	out := Rollout{Node: l.Node, All: orders.All, Keys: []RolloutKey{}}
	if b, governs := control.Budget(); governs {
		out.Budget = &b
	}
	for _, g := range l.Groups() {
		state, freeze, undone := g.Gate()
		if key != "" && string(g.Key) != key || key == "" && state == gate.Open {
			continue
		}
		one := RolloutKey{Key: string(g.Key), State: state.String(), Freeze: freeze, Undone: undone, Pending: []RolloutPending{}}
		if all := g.Revisions(); len(all) > 0 {
			one.Stable = all[0].ID
		}
		if s, governed := control.Status(one.Key); governed {
			one.Rollout = &s
		}
		for _, p := range g.Pending() {
			one.Pending = append(one.Pending, RolloutPending{ShortName(p.TypeURL), p})
		}
		out.Keys = append(out.Keys, one)
	}
	known := func(key string) bool {
		return slices.ContainsFunc(out.Keys, func(k RolloutKey) bool { return k.Key == key })
	}
	for k, f := range orders.Keys { // keys without clients
		if name := string(k); !known(name) && (key == "" || key == name) {
			out.Keys = append(out.Keys, RolloutKey{Key: name, State: gate.Frozen.String(), Freeze: f, Undone: orders.Undone[k], Pending: []RolloutPending{}})
		}
	}
	for k, u := range orders.Undone {
		if name := string(k); !known(name) && (key == "" || key == name) {
			out.Keys = append(out.Keys, RolloutKey{Key: name, State: gate.Undone.String(), Undone: u, Pending: []RolloutPending{}})
		}
	}
	slices.SortFunc(out.Keys, func(a, b RolloutKey) int { return strings.Compare(a.Key, b.Key) })
	if key != "" && len(out.Keys) == 0 {
		return out, ErrUnknownKey
	}
	return out, nil
}

// MergeRollouts makes one status of those of all nodes: of each key what the node says that decides about
// it.
func MergeRollouts(node string, all []Rollout, silent []Silent) Rollout {
	out := Rollout{Node: node, Keys: []RolloutKey{}, Silent: silent}
	for _, one := range all {
		if one.All != nil {
			out.All = one.All
		}
		if b := one.Budget; b != nil && (out.Budget == nil || b.Written > out.Budget.Written) {
			out.Budget = b
		}
		out.Idle += one.Idle
		for _, k := range one.Keys {
			at, has := slices.BinarySearchFunc(out.Keys, k, func(a, b RolloutKey) int { return strings.Compare(a.Key, b.Key) })
			switch {
			case !has:
				out.Keys = slices.Insert(out.Keys, at, k)
			case k.isDecided() && k.authority() >= out.Keys[at].authority():
				out.Keys[at] = k
			}
		}
	}
	return out
}

// isDecided reports whether the key was described by the node that decides about it, and not by one that
// follows it.
func (k *RolloutKey) isDecided() bool {
	return k.Rollout != nil && k.Rollout.Role != rollouts.Following.String() && k.Rollout.Role != rollouts.Claiming.String()
}

// authority orders what several nodes report of a key: the highest counts. Each node observes its own clients,
// so one that would have refused the revision comes before the others.
func (k *RolloutKey) authority() int {
	switch {
	case !k.isDecided():
		return 0
	case !k.Rollout.Observes():
		return 3
	case strings.HasPrefix(k.Rollout.State, rollouts.StateHeld):
		return 2
	}
	return 1
}

// RolloutHistory returns the revisions of a key, and the decisions about them.
func (l Local) RolloutHistory(key string, control *rollouts.Controller) (RolloutHistory, error) {
	out := RolloutHistory{Key: key, Node: l.Node, Revisions: []RolloutRevision{}}
	g := l.group(key)
	if g == nil {
		return out, ErrUnknownKey
	}
	for _, r := range g.Revisions() {
		one := RolloutRevision{ID: r.ID, At: r.At, Cause: r.Cause, NotUndoable: r.NotUndoable, Types: []RolloutType{}}
		for _, t := range r.Types {
			one.Types = append(one.Types, RolloutType{ShortName(t.TypeURL), t})
		}
		out.Revisions = append(out.Revisions, one)
	}
	if s, governed := control.Status(key); governed {
		slices.Reverse(s.History)
		out.Decisions = s.History
	}
	return out, nil
}

// RolloutDiff compares what clients of a key see with what its control plane has sent.
func (l Local) RolloutDiff(key string) (RolloutDiff, error) {
	out := RolloutDiff{Key: key, Node: l.Node, Types: []RolloutTypeDiff{}}
	g := l.group(key)
	if g == nil {
		return out, ErrUnknownKey
	}
	left := budget{resources: mostChangedResources, fields: mostFieldsOfAll, bytes: mostComparedBytes}
	for _, held := range g.HeldChanges() {
		t := RolloutTypeDiff{URL: held.Type.URL, Name: ShortName(held.Type.URL), Resources: []ResourceDiff{}}
		for i := range held.Changes {
			if left.resources == 0 {
				t.Omitted = len(held.Changes) - i
				break
			}
			left.resources--
			t.Resources = append(t.Resources, left.diff(&held.Changes[i]))
		}
		out.Types = append(out.Types, t)
	}
	return out, nil
}

// ShowRollout are the questions about what clients see, for this node.
type ShowRollout struct {
	Status  func(key string) (Rollout, error)
	Active  func(ctx context.Context) Rollout
	History func(key string) (RolloutHistory, error)
	Diff    func(key string) (RolloutDiff, error)
	Plan    func(key string) (rollouts.Plan, error)
	Order   func(ctx context.Context, o RolloutOrder) (RolloutOrdered, error)
}
