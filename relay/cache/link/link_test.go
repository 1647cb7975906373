package link

import (
	"errors"
	"testing"
	"time"

	"xdsrelay/relay/transition"
	"xdsrelay/relay/transition/transitiontest"
)

var (
	errOut = errors.New("unreachable")
	began  = time.Unix(1e9, 0)
)

func at(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

// apply makes an event happen as the caller does.
func (l *Link) apply(e Event, now time.Time) {
	switch e {
	case Started:
		l.Start(now)
	case Up:
		l.Up(now)
	case Down:
		l.Down(errOut, now)
	case Borrowed:
		l.Move(OtherNode, now)
	case Returned:
		l.Move(ControlPlane, now)
	case Silenced:
		l.Hear(Mute)
	case Responded:
		l.Hear(Heard)
	case Slept:
		l.Sleep(now, now)
	case Released:
		l.Release(now)
	case Idled:
		l.Idle(errOut, now)
	}
}

// TestQuestions holds the answers to all questions, and what each event does to the times, in every
// state against the facts.
func TestQuestions(t *testing.T) {
	err := machine.Walk(&transitions, func(step *transitiontest.Step[State, Event, Effect, flags]) error {
		l := Link{State: step.State, why: errOut}
		l.Others.Exist = true
		got := map[string]bool{
			"IsUp": l.IsUp(), "IsDown": l.IsDown(), "IsCutOff": l.IsCutOff(), "HasFailed": l.HasFailed(), "IsBorrowed": l.IsBorrowed(), "Confirms": l.Confirms(),
			"AsksControlPlane": l.AsksControlPlane(), "MayRevoke": l.MayRevoke(), "MayImprove": l.MayImprove(), "Err": l.Err() != nil,
			"AsksFirst": l.AsksFirst(at(0)),
		}
		l.Others.Asked(at(0), nil)
		got["Unasked"] = l.Unasked("a", at(0))
		for question, want := range step.Before.answers() {
			if got[question] != want {
				t.Errorf("%s while %v: %v, expected %v", question, step.State, got[question], want)
			}
		}
		if !step.Cell.Legal {
			return nil
		}
		for _, lost := range []time.Time{at(1), at(5)} {
			l := Link{State: step.State, why: errOut, since: at(0), lost: lost, resumed: at(0)}
			l.apply(step.Event, at(8))
			want := l
			want.since, want.lost, want.resumed = at(0), lost, at(0)
			switch {
			case step.Event == Released:
				want.since = time.Time{}
			case step.After.began:
				want.since = at(8)
			}
			if step.After.lost {
				want.lost = at(8)
			}
			if step.After.resumed && lost.Equal(at(1)) {
				want.resumed = at(8)
			}
			if l.State != step.Cell.To || !l.Since().Equal(want.since) || !l.Lost().Equal(want.lost) || !l.resumed.Equal(want.resumed) {
				t.Errorf("%v while %v, lost at %v: %+v, expected %+v", step.Event, step.State, lost, l, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestIllegal holds that an event that the caller cannot cause panics in builds with the race
// detector, and changes nothing in others.
func TestIllegal(t *testing.T) {
	var l Link
	defer func() {
		if r := recover(); (r != nil) != transition.Checked || r != nil && r != "link: Up while ControlPlane Unneeded Heard" {
			t.Errorf("panicked with %v", r)
		}
		if l.State != (State{}) {
			t.Errorf("the state is %v", l.State)
		}
	}()
	if effect := l.Up(at(0)); effect != 0 {
		t.Errorf("the effect is %d", effect)
	}
}

// TestKnowsSince holds that a brief interruption does not count, and a longer one does.
func TestKnowsSince(t *testing.T) {
	var l Link
	knows := func(now int, since time.Time, ok bool) {
		t.Helper()
		if got, is := l.KnowsSince(at(now)); is != ok || is && !got.Equal(since) {
			t.Errorf("%v since %v, expected %v since %v", is, got, ok, since)
		}
	}
	l.Start(at(0))
	knows(0, at(0), false)
	l.Up(at(1))
	knows(1, at(1), true)
	l.Down(errOut, at(10))
	knows(15, at(1), true)
	knows(16, at(1), false)
	l.Up(at(15))
	knows(15, at(1), true)
	l.Down(errOut, at(20))
	l.Up(at(26))
	knows(26, at(26), true)
	if l.ConfirmsSince(at(26)) || !l.ConfirmsSince(at(27)) {
		t.Error("it confirms since another time than that at which it was up")
	}
	l.Hear(Mute)
	if l.ConfirmsSince(at(27)) {
		t.Error("a mute stream confirms")
	}
}

// TestOthers holds until when other nodes have to be asked before the control plane, and which after
// it.
func TestOthers(t *testing.T) {
	var l Link
	first := func(now int, want bool) {
		t.Helper()
		if got := l.AsksFirst(at(now)); got != want {
			t.Errorf("others have to be asked first: %v, expected %v", got, want)
		}
	}
	unasked := func(node string, now int, unasked, unmet bool) {
		t.Helper()
		if got := l.Unasked(node, at(now)); got != unasked {
			t.Errorf("%q has to be asked: %v, expected %v", node, got, unasked)
		}
		if got := l.Others.Unmet(node); got != unmet {
			t.Errorf("%q was not asked: %v, expected %v", node, got, unmet)
		}
	}
	first(0, false)
	l.Others.Exist = true
	first(0, true)
	unasked("a", 0, false, false)
	l.Others.AskedAny(at(0))
	l.Others.Meet([]string{"a"})
	unasked("b", 0, false, false)
	first(5, false)
	first(6, true)
	l.Others.Asked(at(10), []string{"a"})
	first(15, false)
	unasked("a", 10, false, false)
	unasked("b", 19, true, true)
	unasked("b", 20, false, true)
	unasked("", 10, false, true)
	l.Others.Meet([]string{"b"})
	unasked("b", 10, false, false)
	l.Move(OtherNode, at(11))
	first(11, false)
	unasked("c", 11, false, false)
	l.Move(ControlPlane, at(12))
	first(12, true)
	unasked("c", 12, false, false)
}

// TestSleep holds that clients wait for other nodes after the process slept only if there is a
// stream, or an attempt.
func TestSleep(t *testing.T) {
	for p := range Phase(phases) {
		l := Link{State: State{Phase: p}}
		if l.Sleep(at(0), at(1)); l.Others.Awaited() != (p >= Connecting) {
			t.Errorf("%v: they wait: %v", p, l.Others.AwaitedSince)
		}
		if want := p >= Connecting || p == Unneeded; l.MayImprove() != want {
			t.Errorf("%v: something newer may arrive: %v, expected %v", p, l.MayImprove(), want)
		}
	}
}

// TestVersions holds whose versions the content has after each event in each state.
func TestVersions(t *testing.T) {
	const none, before, this, mixed = NoServer, Before, ThisServer, Mixed
	for _, tc := range []struct {
		of     Owner
		after  [5]Owner // that A answers, that B does, that content of B or of an unknown server is restored, that a feed begins
		server [5]string
	}{
		{none, [5]Owner{this, this, before, none, none}, [5]string{"A", "B", "B", "", ""}},
		{before, [5]Owner{this, mixed, before, before, before}, [5]string{"A", "B", "A", "A", "A"}},
		{this, [5]Owner{this, mixed, this, this, before}, [5]string{"A", "B", "A", "A", "A"}},
		{mixed, [5]Owner{this, mixed, mixed, mixed, before}, [5]string{"A", "B", "A", "A", "A"}},
	} {
		for i, event := range []func(*Versions){
			func(v *Versions) { v.SentBy("A") }, func(v *Versions) { v.SentBy("B") },
			func(v *Versions) { v.Restored("B") }, func(v *Versions) { v.Restored("") }, (*Versions).restart,
		} {
			v := Versions{owner: tc.of, server: "A"}
			if tc.of == NoServer {
				v.server = ""
			}
			event(&v)
			if want := (Versions{tc.after[i], tc.server[i]}); v != want || v.Server() != want.server || v.AreCurrent() != (want.owner == ThisServer) {
				t.Errorf("event %d while %d: %+v, expected %+v", i, tc.of, v, want)
			}
		}
	}
}

// TestCost holds that an event allocates nothing.
func TestCost(t *testing.T) {
	var l Link
	if n := testing.AllocsPerRun(100, func() {
		l.Start(at(0))
		l.Up(at(1))
		l.Idle(errOut, at(2))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
