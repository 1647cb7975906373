package rollout

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Brakes are the reasons why nothing may widen. Each is set and cleared by itself.
type Brakes uint8

const (
	// Frozen: an operator has frozen the key.
	Frozen Brakes = 1 << iota
	// Paused: an operator has paused the rollout.
	Paused
	// NoRedis: Redis cannot be reached, so nothing can be agreed on.
	NoRedis
	// NoOwner: no node owns the key.
	NoOwner
	// MixedVersions: a node of the tier does not support rollouts.
	MixedVersions
)

var brakeReasons = [...]string{"frozen", "paused", "Redis unreachable", "no owner", "mixed versions"}

// Has reports whether all of some brakes are set.
func (b Brakes) Has(of Brakes) bool { return b&of == of }

// IsSuspended reports whether the tier has a reason, rather than an operator.
func (b Brakes) IsSuspended() bool { return b&(NoRedis|NoOwner|MixedVersions) != 0 }

// String lists the reasons; empty without any.
func (b Brakes) String() string {
	var all []string
	for i, name := range brakeReasons {
		if b&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// Stop sets a reason why nothing may widen. Bakes stop.
func (k *Key) Stop(b Brakes, now time.Time) {
	was := k.Brakes
	k.Brakes |= b
	if was == 0 && b != 0 {
		k.apply(Stopped, now)
	}
}

// Release clears a reason. After the last one, bakes begin again.
func (k *Key) Release(b Brakes, now time.Time) Effect { return k.release(b, now) }

func (k *Key) release(b Brakes, now time.Time) Effect {
	was := k.Brakes
	k.Brakes &^= b
	if b&Frozen != 0 {
		k.Frozen = Order{}
	}
	if b&Paused != 0 {
		k.Paused = Order{}
	}
	if was == 0 || k.Brakes != 0 {
		return 0
	}
	if k.Restarts > 0 {
		k.Superseded = now // the time before counts for the brake
	}
	return k.apply(Released, now)
}

// Order is who gave an order, why, and when. The zero value is none.
type Order struct {
	By, Why string
	At      time.Time
}

// IsZero reports whether there is no order.
func (o Order) IsZero() bool { return o == Order{} }

// Errors of orders that are not possible now.
var (
	ErrNoRollout   = errors.New("no rollout is on its way")
	ErrNotWaiting  = errors.New("no step waits for an approval")
	ErrNotHeld     = errors.New("the key is not held")
	ErrNoPending   = errors.New("nothing is pending: all clients have what the control plane sent")
	ErrNoFormer    = errors.New("no revision before the stable one is kept")
	ErrNotFrozen   = errors.New("the key is not frozen")
	ErrNotPaused   = errors.New("the rollout is not paused")
	errMayNotWiden = errors.New("nothing may be released")
)

// Approve carries out the order to make the step that waits for it.
func (k *Key) Approve(now time.Time) error {
	switch {
	case k.Need != Approval:
		return ErrNotWaiting
	case k.Brakes != 0:
		return fmt.Errorf("%w: %v", errMayNotWiden, k.Brakes)
	}
	k.approve(now)
	return nil
}

func (k *Key) approve(now time.Time) {
	k.Run.Approved = k.Run.Step + 1
	k.apply(Approved, now)
}

// Pause carries out the order to widen no further for now. Canaries keep the revision.
func (k *Key) Pause(o Order) error {
	if !k.IsJudged() {
		return ErrNoRollout
	}
	k.Record.Paused = o
	k.Stop(Paused, o.At)
	return nil
}

// Resume carries out the order to go on after a pause.
func (k *Key) Resume(now time.Time) (Effect, error) {
	if !k.Brakes.Has(Paused) {
		return 0, ErrNotPaused
	}
	return k.release(Paused, now), nil
}

// Freeze carries out the order to release nothing, of whatever revision.
func (k *Key) Freeze(o Order) {
	k.Record.Frozen = o
	k.Stop(Frozen, o.At)
}

// Unfreeze carries out the order to release changes again.
func (k *Key) Unfreeze(now time.Time) (Effect, error) {
	if !k.Brakes.Has(Frozen) {
		return 0, ErrNotFrozen
	}
	return k.release(Frozen, now), nil
}

// Abort carries out the order to end the rollout: canaries return to the stable revision.
func (k *Key) Abort(now time.Time) (Effect, error) {
	if !k.Allows(Aborted) {
		return 0, ErrNoRollout
	}
	return k.apply(Aborted, now), nil
}

// Retry carries out the order to try refused revisions again.
func (k *Key) Retry(now time.Time) (Effect, error) {
	if k.Phase != Held {
		return 0, ErrNotHeld
	}
	k.Refused, k.Lost, k.first, k.last = nil, Roster{}, now, time.Time{}
	return k.apply(Changed, now), nil
}

// Promote carries out the order to release all that is pending to all clients, without checks. d is
// its digest. It counts even where a brake is set.
func (k *Key) Promote(d Digest, now time.Time) (Effect, error) {
	if !k.Allows(Skipped) {
		return 0, ErrNoPending
	}
	if !d.IsZero() && d != k.Stable {
		k.stable(d)
	}
	k.Newer = false
	k.Refused = nil
	return k.apply(Skipped, now), nil
}

// Undo carries out the order to return all clients to the revision before the stable one.
func (k *Key) Undo(now time.Time) (Effect, error) {
	if len(k.Former) == 0 {
		return 0, ErrNoFormer
	}
	return k.apply(Undone, now), nil
}

// RefusePending refuses the revision that is pending after an undo: what was undone, with all that was
// pending besides.
func (k *Key) RefusePending(d Digest) { k.refuse(d, true) }
