package rollouts

import (
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// reveals reports whether clients may see now what was decided. written says that the records have it.
func (k *key) reveals(written bool) bool {
	switch k.next {
	case nothing:
		return false
	case byOrder:
		return true
	}
	return written && k.state.Brake == rollout.Open
}

// promote makes the revision what all clients see, and watches them.
func (k *key) promote(now time.Time) {
	if k.overlay == nil {
		return
	}
	k.group.Promote(k.overlay, cache.CausePromoted)
	k.candidate = nil
	if k.state.Phase != rollout.Proving { // by order, without checks
		k.overlay = nil
		k.c.cfg.Clients.Hide(k.group, true)
		return
	}
	k.arms.finish()
	k.c.cfg.Clients.Watch(k.group, k.state.Stable.String(), k.overlay.Tables(), now, k.arms.notify)
}

// carry carries out the effects of a transition.
func (k *key) carry(e rollout.Effect, now time.Time) {
	k.publishes()
	switch {
	case e&rollout.Report != 0:
		k.budgetChanges(budgetOp{what: fails}, now)
		k.changed()
	case !k.state.IsUnderWay():
		k.givesBack()
	}
	if e&rollout.Rollback != 0 {
		k.next, k.unshown = nothing, nil
		k.c.cfg.Clients.Hide(k.group, false)
		k.arms.brake()
		k.candidate, k.overlay = nil, nil
	}
	if e&rollout.Undo != 0 {
		k.undo()
	}
	if e&rollout.Promote != 0 {
		to := thePromotion
		if k.state.Phase != rollout.Proving { // all that is pending
			to, k.overlay = byOrder, k.group.CutOverlay()
		}
		if k.overlay != nil {
			k.released(k.overlay)
		}
		k.widens(to)
	}
	if e&rollout.Prove != 0 {
		k.salt = newSalt()
		k.changed()
		k.group.Touch() // it may become last known good now
		if e&rollout.Promote == 0 {
			k.c.cfg.Clients.Hide(k.group, true)
			k.overlay, k.candidate = nil, nil
		}
	}
	if e&rollout.Refuse != 0 {
		k.changed()
	}
	if k.state.Newer || k.state.Need == rollout.Quiet {
		k.due = now // the time of the cut is found out
	}
}

// undo gives all clients back what they had before the newest revision.
func (k *key) undo() {
	promoted := k.next != thePromotion // a promotion that was decided only has changed nothing
	k.next, k.unshown = nothing, nil
	k.c.cfg.Clients.Hide(k.group, promoted)
	switch err := k.noContents(); {
	case err == nil:
		k.group.Revert(k.former[0].contents)
		k.former = k.former[1:]
		k.contents++
		k.state.RefusePending(digestOf(k.group.CutOverlay()))
	case promoted:
		k.c.cfg.Logger.Error("a revision was refused in its final bake, and clients keep it", "key", k.name(), "error", err)
	}
	k.overlay, k.candidate = nil, nil
}
