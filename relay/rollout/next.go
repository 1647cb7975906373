package rollout

import "time"

// Act is what to do next for a key.
type Act uint8

const (
	// Wait: nothing, for the reason of the decision.
	Wait Act = iota
	// MakeCut: freeze all that is pending as an overlay, and call [Key.Cut]; or [Key.Withdrawn] if it is
	// empty.
	MakeCut
	// PassApproval: the policy approves the step. Call [Key.PassApproval].
	PassApproval
	// PassTokens: the budget has given the tokens of the step, or it needs none. Call [Key.Granted].
	PassTokens
	// ChooseScouts: choose scouts, write the record, and call [Key.Chosen].
	ChooseScouts
	// ChooseCanaries: choose the canaries of the share, write the record, and call [Key.Chosen].
	ChooseCanaries
	// KeepCanaries: write the record, and call [Key.Chosen] with the canaries that the step has.
	KeepCanaries
	// Refill: all canaries have left. Choose others, write the record, and call [Key.Refilled].
	Refill
	// PromoteAll: write the record, and call [Key.Promoted].
	PromoteAll
	// Pass: call [Key.Passed].
	Pass
	// Repeat: far more clients are affected than when the canaries were chosen. Call [Key.Outgrown].
	Repeat
	// Fail: call [Key.Failed].
	Fail
	acts
)

var actNames = [acts]string{
	"Wait", "MakeCut", "PassApproval", "PassTokens", "ChooseScouts", "ChooseCanaries", "KeepCanaries", "Refill", "PromoteAll", "Pass", "Repeat", "Fail",
}

func (a Act) String() string { return actNames[a] }

// Reason is why a key waits.
type Reason uint8

const (
	// NoReason: nothing is pending.
	NoReason Reason = iota
	// ByBrakes: a brake is set. [Key.Brakes] has the reasons.
	ByBrakes
	// ByRefusal: the newest revision is refused.
	ByRefusal
	// ForQuiet: the control plane may send more that belongs to the change.
	ForQuiet
	// ForApproval: an operator has to approve the step.
	ForApproval
	// ForBudget and ForBreaker: too many clients have unproven revisions, or too many rollouts have
	// failed.
	ForBudget
	ForBreaker
	// ForClients: no client is affected that may be a canary.
	ForClients
	// ForBake: the bake is not over.
	ForBake
	// ForData: the bake is over, and the verdict lacks data.
	ForData
	// ForTrain: the newest changes wait until the revision before has ended.
	ForTrain
	reasons
)

var reasonNames = [reasons]string{
	"", "braked", "refused", "control plane may send more", "approval", "budget", "breaker open", "no client that may be a canary",
	"bake", "not enough data", "train",
}

// String is the reason in the words of the status; empty for [NoReason].
func (r Reason) String() string { return reasonNames[r] }

// Decision is an act, or why nothing is done, and when that may change by itself: zero for never.
type Decision struct {
	Act Act
	Why Reason
	At  time.Time
}

// View is what the caller knows about a key besides its state.
type View struct {
	// Answered says that each upstream stream of the key has answered for its gated types.
	Answered bool
	// Same says that what is pending is the revision on its way, or a refused one. It counts only after
	// [Restore].
	Same bool
	// Grant is what [Budget.Take] says. Ask it where the need is [Tokens] and [Key.NeedsTokens].
	Grant Grant
	// Eligible is how many affected clients may be canaries, Quarantined how many could be if they were not
	// quarantined, and Present how many canaries are connected. Affected clients are those whose
	// subscription sees a changed name.
	Eligible, Quarantined, Present int
	// Affected is how many clients are affected. It counts only at the end of a bake.
	Affected int
	// Verdict is what [Judge] says. [Key.Next] replaces it if that is not why the revision fails.
	Verdict Verdict
}

// Next decides what to do.
func (k *Key) Next(v *View, now time.Time) Decision {
	switch {
	case k.IsJudged() && k.Run.Written > 0 && v.Verdict.Outcome == Fails:
		return Decision{Act: Fail} // whatever else holds: it narrows
	case k.Brake != Open:
		return Decision{Why: ByBrakes}
	}
	switch k.Need {
	case Quiet:
		return k.nextCut(v, now)
	case Approval:
		if k.Run.needsApproval() {
			return Decision{Why: ForApproval}
		}
		return Decision{Act: PassApproval}
	case Tokens:
		switch {
		case v.Eligible == 0 && k.choosesNext(): // a rollout that cannot go on takes no tokens from others
			return v.noClients()
		case !k.NeedsTokens() || v.Grant == Given:
			return Decision{Act: PassTokens}
		case v.Grant == BreakerOpen:
			return Decision{Why: ForBreaker}
		}
		return Decision{Why: ForBudget}
	case Write:
		return k.nextStep(v)
	case Bake:
		return k.nextVerdict(v, now)
	}
	if k.Phase == Held {
		return Decision{Why: ByRefusal}
	}
	return Decision{}
}

// nextCut decides whether a revision is cut.
func (k *Key) nextCut(v *View, now time.Time) Decision {
	s := k.policy.Settle
	at, latest := k.last.Add(s.Quiet), k.first.Add(s.Max)
	if !v.Answered || at.After(latest) {
		at = latest
	}
	if until, sought := k.soughtUntil(v, now); sought && at.Before(until) {
		at = until
	}
	if now.Before(at) {
		return Decision{Why: ForQuiet, At: at}
	}
	return Decision{Act: MakeCut}
}

// nextStep decides how a step is made.
func (k *Key) nextStep(v *View) Decision {
	switch {
	case k.Run.IsLast():
		return Decision{Act: PromoteAll}
	case !k.choosesNext():
		return Decision{Act: KeepCanaries}
	case v.Eligible == 0:
		return v.noClients()
	case k.Phase == Scouting:
		return Decision{Act: ChooseScouts}
	}
	return Decision{Act: ChooseCanaries}
}

// choosesNext reports whether the canaries of the step have yet to be chosen. Those of one that was made
// before are kept, and the last step has none.
func (k *Key) choosesNext() bool {
	return !k.Run.IsLast() && (k.Run.Written <= k.Run.Step || k.Run.Canaries.IsEmpty() || k.Run.Affected == 0)
}

// nextVerdict decides whether a bake passes.
func (k *Key) nextVerdict(v *View, now time.Time) Decision {
	switch {
	case k.IsUnderWay() && v.Present == 0 && v.Eligible > 0 && now.Before(k.Run.Stepped.Add(refillPause)):
		return Decision{Why: ForClients, At: k.Run.Stepped.Add(refillPause)}
	case k.IsUnderWay() && v.Present == 0 && v.Eligible > 0:
		return Decision{Act: Refill}
	case k.IsUnderWay() && v.Present == 0:
		return v.noClients()
	case now.Before(k.Run.BakeEnds):
		return Decision{Why: ForBake, At: k.Run.BakeEnds}
	case v.Verdict.Outcome != Passes:
		return Decision{Why: ForData}
	case k.isOutgrown(v):
		return Decision{Act: Repeat}
	}
	return Decision{Act: Pass}
}

// outgrown is how many times as many clients as before make a step begin again. Each time doubles them, so there are
// only a few such times, even while the clients of a large key connect one by one.
const outgrown = 2

// isOutgrown reports whether the canaries of a step were chosen among far fewer clients than there are: most of them
// had not connected yet. Then a share of a few clients says nothing about the others, nor do scouts.
func (k *Key) isOutgrown(v *View) bool {
	return k.IsUnderWay() && k.Run.Affected > 0 && v.Affected >= outgrown*k.Run.Affected
}

// refillPause is the time between a step and other canaries for it: the clients that are chosen may have left
// by then, so that these are chosen again and again.
const refillPause = time.Second

// noClients decides what to do if no client may get the revision: if all of them are quarantined, it has
// failed, since nobody is left to show that it is good. The verdict becomes that.
func (v *View) noClients() Decision {
	if v.Quarantined > 0 {
		v.Verdict = allQuarantined(v.Quarantined)
		return Decision{Act: Fail}
	}
	return Decision{Why: ForClients}
}

// PassApproval records that the policy approves the step.
func (k *Key) PassApproval(now time.Time) {
	if k.Allows(Approved) {
		k.approve(now)
	}
}

// NeedsTokens reports whether the clients of the step count against the budget: those of all steps
// until the first bake has passed. In mode observe none do.
func (k *Key) NeedsTokens() bool {
	first := k.Phase == Scouting || k.Phase == Stepping && k.Run.Step == 1 && !k.Run.Small
	return first && k.Run.Policy.Mode.Holds()
}

// IsFirstBake reports whether the bake is the one after which a revision no longer needs tokens.
func (k *Key) IsFirstBake() bool {
	return k.Need == Bake && (k.Phase == Scouting && k.Run.Small || k.Phase == Stepping && k.Run.Step == 1)
}

// Waiting is what newer changes, or the step, wait for, as people see it.
func (k *Key) Waiting(v *View, now time.Time) Reason {
	if k.Newer {
		return ForTrain
	}
	return k.Next(v, now).Why
}

// IsOverdue reports whether the rollout takes longer than the policy expects.
func (k *Key) IsOverdue(now time.Time) bool {
	return k.IsJudged() && !k.Run.Began.IsZero() && now.Sub(k.Run.Began) > k.Run.Policy.Longest
}

// HasCandidate reports whether a client is sent the revision instead of the stable one.
func (k *Key) HasCandidate(h Hash) bool {
	return k.Phase != Proving && k.Run.Canaries.Has(h) && !k.Lost.Has(h)
}

// LostCanary records that a canary has ended its stream unexpectedly: it is quarantined.
func (k *Key) LostCanary(h Hash) {
	if k.Run.Canaries.Has(h) {
		k.Lost = k.Lost.With(h)
	}
}
