package rollout

import (
	"encoding/json"
	"testing"
	"time"

	"xdsrelay/relay/transition"
)

// TestRestore holds that another node continues with the same canaries and a fresh bake if the
// control plane sends the same, and starts over if not.
func TestRestore(t *testing.T) {
	for _, content := range []int{1, 2, 0} {
		r := newRig(Preset(Standard), 1000)
		r.send(1)
		r.sleep(3 * time.Minute)
		r.is(t, "Stepping Bake", 100, 0)
		text, err := json.Marshal(r.Saved())
		if err != nil {
			t.Fatal(err)
		}
		var saved Record
		if err := json.Unmarshal(text, &saved); err != nil {
			t.Fatal(err)
		}
		canaries := r.Run.Canaries
		r.now = r.now.Add(time.Hour)
		r.Key, r.origin = Restore(saved, Preset(Standard), r.now), content
		r.is(t, "Stepping Quiet", 100, 0)
		if r.view.Same = content == 1; !r.view.Same {
			r.sleep(4 * time.Second) // it may be a part
			r.is(t, "Stepping Quiet", 100, 0)
			r.sleep(time.Second)
		}
		r.sleep(time.Second)
		switch content {
		case 1:
			r.is(t, "Stepping Bake", 100, 0)
			if !canaries.Contains(&r.Run.Canaries) || r.run().At.Before(r.now.Add(5*time.Minute-time.Second)) {
				t.Error("other canaries, or no fresh bake")
			}
		case 2:
			r.is(t, "Stepping Bake", 10, 0)
		case 0:
			r.is(t, "Idle", 0, 0)
		}
	}
	k := Restore(Record{Reached: Proving, Frozen: Order{By: "ann"}, Run: Run{Step: 4}}, Preset(Standard), began)
	if k.State != (State{Proving, Bake, Braked}) || k.Run.BakeEnds != began.Add(10*time.Minute) || k.Frozen.By != "ann" {
		t.Errorf("%v until %v", k.State, k.Run.BakeEnds)
	}
}

// TestRestoreByParts: until the control plane has answered for all types, what is pending may be a part of the
// revision of the record, but not forever. A refused revision is not tried again in parts, either.
func TestRestoreByParts(t *testing.T) {
	for _, reached := range []Phase{Stepping, Held} {
		r := newRig(Preset(Standard), 1000)
		r.origin = 2 // a part
		r.Key = Restore(Record{Reached: reached, Refused: []Digest{digestOf(1)}, Run: Run{Step: 1, Written: 2, Revision: digestOf(1), Canaries: RosterOf(1)}}, Preset(Standard), r.now)
		r.view.Answered = false
		r.sleep(29 * time.Second)
		if r.Need != Quiet {
			t.Errorf("%v: a part was cut: %v", reached, r.State)
		}
		r.sleep(2 * time.Second)
		if r.Need == Quiet {
			t.Errorf("%v: nothing was cut: %v", reached, r.State)
		}
	}
}

// TestIllegal holds that an event that the caller cannot cause panics in builds with the race
// detector, and changes nothing in others.
func TestIllegal(t *testing.T) {
	k := New(Preset(Standard))
	defer func() {
		if p := recover(); (p != nil) != transition.Checked || p != nil && p != "rollout: Chosen while Idle" {
			t.Errorf("panicked with %v", p)
		}
		if k.State != (State{}) {
			t.Errorf("the state is %v", k.State)
		}
	}()
	if _, ok := k.Chosen(RosterOf(1), Roster{}, 1, began); ok { // it may be late
		t.Error("an idle key has canaries")
	}
	k.step(Chosen)
}
