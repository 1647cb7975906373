package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// is holds the state of a key, and how many canaries it has.
func (r *rig) is(t *testing.T, state string, canaries, all int) {
	t.Helper()
	if r.State.String() != state || len(r.Run.Canaries.Hashes) != canaries || r.all != all {
		t.Fatalf("%v with %d canaries, all have %d; expected %s with %d, all with %d\n%s", r.State, len(r.Run.Canaries.Hashes), r.all, state, canaries, all, strings.Join(r.log, " "))
	}
}

var failure = Verdict{Fails, []Finding{{NACKSignal, Fails, "", "1 canary has rejected it"}}}

// TestRollout holds the steps of a good revision, and when each of them is made.
func TestRollout(t *testing.T) {
	r := newRig(Preset(Standard), 1000)
	r.is(t, "Idle", 0, 0)
	r.send(1)
	if d := r.run(); d.Why != ForQuiet || d.At != began.Add(250*time.Millisecond) {
		t.Errorf("waits for %v until %v", d.Why, d.At)
	}
	r.is(t, "Settling Quiet", 0, 0)
	r.now = r.now.Add(250 * time.Millisecond)
	r.view.Verdict.Outcome = NotEnough // the scouts have to answer
	if d := r.run(); d.Why != ForData {
		t.Errorf("waits for %v", d.Why)
	}
	r.is(t, "Scouting Bake", 3, 0)
	r.view.Verdict.Outcome = Passes
	r.run()
	r.is(t, "Stepping Bake", 10, 0)
	if !r.NeedsTokens() || !r.IsFirstBake() || r.budget.Used() == 0 {
		t.Error("the first bake needs no tokens")
	}
	r.sleep(2 * time.Minute)
	r.is(t, "Stepping Bake", 100, 0)
	if r.NeedsTokens() || r.budget.Used() != 0 || len(r.budget.Passed) != 1 {
		t.Error("the second bake needs tokens")
	}
	r.sleep(5 * time.Minute)
	r.is(t, "Stepping Bake", 500, 0)
	r.sleep(5*time.Minute - time.Second)
	r.is(t, "Stepping Bake", 500, 0)
	r.sleep(time.Second)
	r.is(t, "Proving Bake", 0, 1)
	if r.Stable != digestOf(1) || !r.Good.IsZero() {
		t.Error("it is good before the final bake")
	}
	if r.IsOverdue(r.now) || !r.IsOverdue(r.now.Add(3*time.Hour)) {
		t.Error("overdue too early, or never")
	}
	r.sleep(10 * time.Minute)
	r.is(t, "Idle", 0, 1)
	if r.Good != digestOf(1) || r.run().Why != NoReason {
		t.Error("it is not good after the final bake")
	}
}

// TestSmallFleet holds that scouts and one bake are enough for few clients, and that the step to all
// needs the approval that a step that it replaces needs.
func TestSmallFleet(t *testing.T) {
	r := newRig(Preset(Standard), 15)
	r.send(1)
	r.sleep(time.Second)
	r.is(t, "Scouting Bake", 3, 0)
	if !r.IsFirstBake() {
		t.Error("the only bake is not the first")
	}
	r.sleep(2 * time.Minute)
	r.is(t, "Proving Bake", 0, 1)

	r = newRig(Preset(Careful), 15)
	r.send(1)
	if d := r.sleep(time.Hour); d.Why != ForApproval {
		t.Errorf("waits for %v", d.Why)
	}
	if err := r.Approve(r.now); err != nil {
		t.Error(err)
	}
	r.run()
	r.is(t, "Proving Bake", 0, 1)
}

// TestFailures holds what happens to canaries, to the revision and to all clients after a failure
// in each phase, for each policy, and that the fix starts by itself.
func TestFailures(t *testing.T) {
	for _, onFail := range []OnFail{RollBack, HoldThere} {
		for phase, after := range map[Phase]time.Duration{Scouting: time.Second, Stepping: 3 * time.Minute, Proving: 13 * time.Minute} {
			t.Run(fmt.Sprint(onFail, phase), func(t *testing.T) {
				p := *Preset(Standard)
				p.OnFail = onFail
				r := newRig(&p, 1000)
				r.send(1)
				if phase == Scouting {
					r.now = r.now.Add(time.Second)
					r.view.Verdict.Outcome = NotEnough
					r.run()
				} else {
					r.sleep(after)
				}
				if r.Phase != phase {
					t.Fatalf("the phase is %v, expected %v", r.Phase, phase)
				}
				had := len(r.Run.Canaries.Hashes)
				r.view.Verdict = failure
				if d := r.run(); d.Why != ByRefusal {
					t.Errorf("waits for %v", d.Why)
				}
				all := 0
				if onFail == RollBack {
					had = 0
				} else if phase == Proving {
					all = 1
				}
				r.is(t, "Held", had, all)
				if !r.IsRefused(digestOf(1)) || r.Why.Reasons() == "" {
					t.Error("it is not refused, or without a reason")
				}
				r.send(2)
				r.send(1)
				r.sleep(time.Minute)
				if all != 1 { // otherwise it is what all clients have
					r.is(t, "Held", had, 0)
				}
				r.send(2)
				r.sleep(time.Minute)
				if r.Phase != Stepping || r.some != 2 {
					t.Errorf("the fix is %v", r.State)
				}
				r.send(r.all)
				r.is(t, "Idle", 0, all)
			})
		}
	}
}

// TestRestartsAndTrains holds that a newer revision supersedes, that it supersedes nothing without
// end, and that a train is not disturbed.
func TestRestartsAndTrains(t *testing.T) {
	r := newRig(Preset(Standard), 1000)
	r.send(1)
	r.sleep(3 * time.Minute)
	r.is(t, "Stepping Bake", 100, 0)
	r.send(2)
	r.is(t, "Stepping Quiet", 100, 0)
	r.send(1) // the same content, after all
	r.sleep(time.Second)
	r.is(t, "Stepping Bake", 100, 0)
	for content := 2; content <= 4; content++ {
		r.send(content)
		r.sleep(time.Second)
		r.is(t, "Stepping Bake", 10, 0)
		if want := content == 4; (r.Run.Pace == Train) != want {
			t.Fatalf("content %d: the pace is %d", content, r.Run.Pace)
		}
	}
	r.send(5)
	r.sleep(time.Minute)
	if r.is(t, "Stepping Bake", 10, 0); r.Waiting(&r.view, r.now) != ForTrain {
		t.Errorf("waits for %v", r.Waiting(&r.view, r.now))
	}
	r.sleep(12 * time.Minute)
	r.is(t, "Proving Bake", 0, 4)
	r.sleep(10 * time.Minute)
	if r.Good != digestOf(4) || r.some != 5 || r.Phase != Stepping {
		t.Errorf("after the train: %v with %d", r.State, r.some)
	}

	p := *Preset(Standard)
	p.Newer = AfterThis
	r = newRig(&p, 1000)
	r.send(1)
	r.sleep(time.Second)
	r.send(2)
	r.sleep(time.Minute)
	if r.some != 1 || !r.Newer {
		t.Error("it does not wait")
	}
	r.view.Verdict = failure
	r.run()
	r.sleep(time.Second)
	if r.some != 2 {
		t.Errorf("after the failure: %v with %d", r.State, r.some)
	}

	// Old enough is reason enough.
	r = newRig(Preset(Standard), 1000)
	for content := 1; content <= 3; content++ {
		r.send(content)
		r.sleep(time.Second)
		r.Freeze(Order{"o", "w", r.now})
		r.now = r.now.Add(16 * time.Minute)
		if _, err := r.Unfreeze(r.now); err != nil {
			t.Error(err)
		}
	}
	if r.Run.Pace == Train {
		t.Error("the time of a freeze counts")
	}
	r.Superseded = r.now.Add(-MaxStale)
	r.send(4)
	r.sleep(time.Second)
	if r.Run.Pace != Train {
		t.Error("it is no train after a long time")
	}
}

// TestOrders holds what each order does, and when it is refused.
func TestOrders(t *testing.T) {
	r := newRig(Preset(Standard), 1000)
	refused := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, expected %v", err, want)
		}
	}
	_, err := r.Abort(r.now)
	refused(err, ErrNoRollout)
	_, err = r.Retry(r.now)
	refused(err, ErrNotHeld)
	_, err = r.Promote(digestOf(1), r.now)
	refused(err, ErrNoPending)
	_, err = r.Undo(r.now)
	refused(err, ErrNoFormer)
	_, err = r.Unfreeze(r.now)
	refused(err, ErrNotFrozen)
	_, err = r.Resume(r.now)
	refused(err, ErrNotPaused)
	refused(r.Pause(Order{At: r.now}), ErrNoRollout)
	refused(r.Approve(r.now), ErrNotWaiting)

	r.send(1)
	r.sleep(time.Second)
	refused(r.Pause(Order{"ann", "lunch", r.now}), nil)
	if d := r.sleep(time.Hour); d.Why != ByBrakes || r.Brakes.String() != "paused" {
		t.Errorf("waits for %v, %v", d.Why, r.Brakes)
	}
	r.is(t, "Stepping Bake Braked", 10, 0)
	e, err := r.Resume(r.now)
	refused(err, nil)
	if d := r.run(); e != Rebake || d.Why != ForBake || d.At != r.now.Add(2*time.Minute) {
		t.Errorf("waits for %v until %v", d.Why, d.At)
	}
	refused(r.Pause(Order{"ann", "", r.now}), nil)
	e, err = r.Abort(r.now)
	refused(err, nil)
	if r.carry(e); r.Brakes != 0 {
		t.Error("an aborted rollout is paused")
	}
	r.is(t, "Held", 0, 0)
	e, err = r.Retry(r.now)
	r.carry(e)
	refused(err, nil)
	r.sleep(time.Second)
	r.is(t, "Stepping Bake", 10, 0)

	r.Freeze(Order{"ann", "night", r.now})
	r.Stop(NoRedis, r.now)
	if _, err = r.Unfreeze(r.now); err != nil || r.Brakes.String() != "Redis unreachable" || !r.Brakes.IsSuspended() {
		t.Errorf("%v: %v", r.Brakes, err)
	}
	r.some = r.origin
	e, err = r.Promote(digestOf(1), r.now) // it needs no agreement
	refused(err, nil)
	r.carry(e)
	r.is(t, "Idle Braked", 0, 1)
	if r.Good != digestOf(1) {
		t.Error("what an operator promotes is not good")
	}
	r.Release(NoRedis, r.now)
	e, err = r.Undo(r.now)
	refused(err, nil)
	r.carry(e)
	r.is(t, "Held", 0, 0)
	if !r.IsRefused(digestOf(1)) || r.Stable != (Digest{}) || r.Good == digestOf(1) {
		t.Errorf("what was undone is not refused: %+v", r.Record)
	}
}

// TestManual holds that nothing starts without an approval, and that each approval is for one step.
func TestManual(t *testing.T) {
	p := *Preset(Standard)
	p.Mode = Manual
	r := newRig(&p, 1000)
	r.send(1)
	for _, want := range []string{"Scouting Approval", "Stepping Approval", "Stepping Approval", "Stepping Approval", "Stepping Approval"} {
		if d := r.sleep(time.Hour); d.Why != ForApproval || r.State.String() != want {
			t.Fatalf("waits for %v in %v, expected %s", d.Why, r.State, want)
		}
		r.Freeze(Order{"o", "", r.now})
		if err := r.Approve(r.now); err == nil || !strings.Contains(err.Error(), "frozen") {
			t.Errorf("approved while frozen: %v", err)
		}
		r.Release(Frozen, r.now)
		if err := r.Approve(r.now); err != nil {
			t.Fatal(err)
		}
	}
	r.run()
	r.is(t, "Proving Bake", 0, 1)
}

// TestObserve holds that the mode observe decides as if it held, without approvals and tokens.
func TestObserve(t *testing.T) {
	p := *Preset(Careful)
	p.Mode = Observe
	r := newRig(&p, 1000)
	r.limits.Shares = []Share{0}
	if r.IsEnforced() || !New(Preset(Careful)).IsEnforced() || p.Gates(URLOf("CDS")) {
		t.Error("it is enforced")
	}
	r.send(1)
	r.sleep(36 * time.Minute)
	r.is(t, "Proving Bake", 0, 1)
}

// TestSuspended holds that a brake stops a choice that is under way.
func TestSuspended(t *testing.T) {
	r := newRig(Preset(Standard), 1000)
	r.send(1)
	r.now = r.now.Add(time.Second)
	for r.Need != Write {
		r.step()
	}
	r.Stop(NoOwner, r.now)
	if _, ok := r.Chosen(RosterOf(1), Roster{}, 1000, r.now); ok {
		t.Error("a brake does not stop it")
	}
	r.Stop(MixedVersions, r.now)
	r.Release(NoOwner, r.now)
	if d := r.run(); d.Why != ByBrakes || r.Brakes != MixedVersions {
		t.Errorf("waits for %v, %v", d.Why, r.Brakes)
	}
	r.Release(MixedVersions, r.now)
	r.run()
	r.is(t, "Stepping Bake", 10, 0)
	r.view.Verdict = failure
	r.Stop(NoRedis, r.now)
	r.run()
	r.is(t, "Held Braked", 0, 0)
}

// TestNoClients: a rollout that has no client to go on with takes no tokens. If all clients that could get
// the revision are quarantined, it fails: otherwise it would wait for good.
func TestNoClients(t *testing.T) {
	r := newRig(Preset(Standard), 0)
	r.send(1)
	if d := r.sleep(time.Second); d.Why != ForClients || r.Need != Tokens || r.budget.Used() != 0 {
		t.Errorf("without clients: %v with %d tokens, waits for %v", r.State, r.budget.Used(), d.Why)
	}
	r = newRig(Preset(Standard), 1)
	r.send(1)
	r.view.Verdict.Outcome = NotEnough
	r.sleep(time.Second)
	r.is(t, "Scouting Bake", 1, 0)
	r.LostCanary(r.clients[0].hash)
	r.run()
	r.is(t, "Held", 0, 0)
	r.send(2) // another revision may get on with it
	r.sleep(time.Second)
	r.is(t, "Scouting Bake", 1, 0)
}

// TestRefillsPause: if the canaries that were chosen in place of others are not there either, others are not
// chosen at once, but after a pause.
func TestRefillsPause(t *testing.T) {
	r := newRig(Preset(Standard), 100)
	r.send(1)
	r.sleep(time.Second)
	r.is(t, "Stepping Bake", 3, 0)
	v := View{Eligible: 50, Verdict: Verdict{Outcome: NotEnough}}
	now := r.now.Add(refillPause)
	if d := r.Next(&v, now); d.Act != Refill {
		t.Fatalf("without canaries: %+v", d)
	}
	if !r.Refilled(RosterOf(r.clients[7].hash), Roster{}, now) {
		t.Fatal("not refilled")
	}
	if d := r.Next(&v, now); d.Act != Wait || d.Why != ForClients || d.At != now.Add(refillPause) {
		t.Errorf("at once after that: %+v", d)
	}
	if d := r.Next(&v, now.Add(refillPause)); d.Act != Refill {
		t.Errorf("after the pause: %+v", d)
	}
}

// TestLostStayLost: a client that was lost with a revision does not get it again when the control plane has
// withdrawn it, and sends it once more.
func TestLostStayLost(t *testing.T) {
	r := newRig(Preset(Standard), 100)
	r.send(4)
	r.view.Verdict.Outcome = NotEnough
	r.sleep(time.Second)
	lost := r.Run.Canaries.Hashes[0]
	r.LostCanary(lost)
	r.send(0)
	r.is(t, "Idle", 0, 0)
	r.send(4)
	r.sleep(time.Second)
	if r.State.String() != "Scouting Bake" || r.Run.Canaries.Has(lost) {
		t.Errorf("%v, and the canaries have a client that was lost: %v", r.State, r.Run.Canaries.Has(lost))
	}
}
