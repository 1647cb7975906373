package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a naive account of what each client was ever sent, and of what must not be sent.
type model struct {
	*rig
	sent    map[Hash]int  // clients that were sent the revision on its way
	lost    map[Hash]bool // and must not be sent one again
	refused []int
	was     Key
	had     int // content of all clients
	largest int // share in clients of the largest step that was reached
	kept    int // clients that had the revision when it went to scouts again
}

// look compares the key with the model after each single action. ordered says that the action was an
// order to release everything.
func (m *model) look(t *rapid.T, ordered bool) {
	k := m.Key
	if k.Run.Revision != m.was.Run.Revision || k.Phase == Scouting && m.was.Phase != Scouting {
		m.sent, m.largest, m.refills, m.kept = make(map[Hash]int), 0, 0, 0
		if k.Run.Revision != m.was.Run.Revision { // who was lost with another one may get this one
			m.lost = make(map[Hash]bool)
		}
		if slices.Contains(m.refused, m.some) && k.IsUnderWay() {
			t.Fatalf("content %d is refused and tried again", m.some)
		}
	}
	if k.Run.Repeats > m.was.Run.Repeats {
		m.sent, m.kept = make(map[Hash]int), 0
		for _, c := range m.clients {
			if m.has(c.hash) != m.all {
				m.kept++
			}
		}
		m.largest = m.kept
	}
	if k.IsUnderWay() && !k.Run.Canaries.IsEmpty() && k.Need == Bake {
		m.largest = max(m.largest, m.kept+k.Run.Policy.Scouts.Most, k.Run.Share().Of(len(m.clients)))
	}
	grew := false
	for _, c := range m.clients {
		if m.has(c.hash) == m.all || k.Phase == Held {
			continue
		}
		if m.lost[c.hash] {
			t.Fatalf("%x was lost and gets %d", c.hash, m.some)
		}
		if _, is := m.sent[c.hash]; !is {
			grew = true
			m.sent[c.hash] = m.some
		}
	}
	switch {
	case len(m.sent) > m.largest+m.refills*m.largest:
		t.Fatalf("%d clients were sent content %d, expected %d at most after %d refills", len(m.sent), m.some, m.largest, m.refills)
	case k.Run.Revision == m.was.Run.Revision && k.IsUnderWay() && k.Run.Step > m.was.Run.Step && len(m.clients) >= outgrown*m.was.Run.Affected:
		t.Fatalf("a step with canaries among %d clients has passed, and there are %d", m.was.Run.Affected, len(m.clients))
	case grew && m.was.Brakes != 0:
		t.Fatalf("more canaries while %v", m.was.Brakes)
	case grew && (m.was.Need == Quiet || m.was.Phase == Held && k.Phase == Held):
		t.Fatalf("more canaries while %v", m.was.State)
	case grew && m.origin != m.some && k.Run.Pace != Train:
		t.Fatalf("content %d is superseded by %d and gets more canaries", m.some, m.origin)
	case m.all != m.had && m.was.Brakes != 0 && !ordered && !slices.Contains(m.log[max(0, len(m.log)-4):], "undo"):
		t.Fatalf("all clients get %d while %v", m.all, m.was.Brakes)
	case k.Run.Revision == m.was.Run.Revision && k.IsUnderWay() && m.was.IsUnderWay() && k.Run.Step > m.was.Run.Step+1:
		t.Fatalf("step %d follows %d", k.Run.Step, m.was.Run.Step)
	case m.budget.Used() > m.budget.Limit(&m.limits, 100*len(m.clients), m.cutAt):
		t.Fatalf("%d tokens", m.budget.Used())
	case (k.Brakes != 0) != (k.Brake == Braked):
		t.Fatalf("%v while %v", k.State, k.Brakes)
	case !k.Stable.IsZero() && k.Stable != digestOf(m.all):
		t.Fatalf("stable is %v, and all clients have %d", k.Stable, m.all)
	case k.Phase == Idle && m.origin != m.all:
		t.Fatalf("idle, and content %d is pending", m.origin)
	}
	m.was, m.had = *k, m.all
}

// forget is what an order does that tries again what was refused.
func (m *model) forget() { m.refused, m.lost = nil, make(map[Hash]bool) }

// refuse notes a content as the key does, which remembers the newest ones.
func (m *model) refuse(contents ...int) {
	for _, c := range contents {
		if !slices.Contains(m.refused, c) {
			m.refused = append(m.refused, c)
		}
	}
	m.refused = m.refused[max(0, len(m.refused)-MaxRefused):]
}

// TestRandomRollouts holds over random changes, failures, orders and brakes that a revision reaches at
// most the clients of its step, that steps follow one by one, that nothing widens while a brake is
// set or a newer revision is about to supersede it, that a refused one is not tried again, that a
// lost canary does not get it again, and that it all ends once the control plane is quiet.
func TestRandomRollouts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := *rapid.SampledFrom(Presets()).Draw(t, "policy")
		p.OnFail = rapid.SampledFrom([]OnFail{RollBack, HoldThere}).Draw(t, "on fail")
		p.Newer = rapid.SampledFrom([]Newer{Restart, AfterThis}).Draw(t, "newer")
		m := &model{rig: newRig(&p, rapid.SampledFrom([]int{1, 15, 60, 250}).Draw(t, "clients"))}
		m.sent, m.lost, m.was = make(map[Hash]int), make(map[Hash]bool), *m.Key
		order := Order{By: "ann"}
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			order.At = m.now
			ordered := false
			good := m.Good
			switch rapid.IntRange(0, 12).Draw(t, "action") {
			case 12:
				if more := rapid.IntRange(1, 2*len(m.clients)).Draw(t, "clients that connect"); len(m.clients) < 500 {
					m.clients = append(m.clients, fleet(more, 3, fmt.Sprint("salt", len(m.clients)))...)
				}
			case 0, 1:
				m.send(rapid.IntRange(0, 4).Draw(t, "content"))
			case 2, 3, 4:
				m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Minute}).Draw(t, "pause"))
			case 5:
				if hashes := m.Run.Canaries.Hashes; len(hashes) > 0 && m.IsUnderWay() {
					h := hashes[rapid.IntRange(0, len(hashes)-1).Draw(t, "lost")]
					m.LostCanary(h)
					m.lost[h] = true
				}
			case 6:
				m.view.Verdict = failure
			case 7:
				if e, err := m.Abort(m.now); err == nil {
					m.carry(e)
				}
			case 8:
				b := rapid.SampledFrom([]Brakes{NoRedis, NoOwner, MixedVersions}).Draw(t, "brake")
				if m.Brakes.Has(b) {
					m.Release(b, m.now)
				} else {
					m.Stop(b, m.now)
				}
			case 9:
				if rapid.Bool().Draw(t, "frozen") {
					m.Freeze(order)
				} else {
					_, _ = m.Unfreeze(m.now)
					_, _ = m.Resume(m.now)
				}
			case 10:
				if e, err := m.Retry(m.now); err == nil {
					m.carry(e)
					m.forget()
				}
			case 11:
				_ = m.Approve(m.now)
				if rapid.IntRange(0, 3).Draw(t, "order") == 0 && m.Allows(Skipped) {
					m.some, ordered = m.origin, true
					e, _ := m.Promote(digestOf(m.origin), m.now)
					if m.all == m.origin {
						e &^= Promote
					}
					m.carry(e)
					m.forget()
				} else if len(m.Former) > 0 && len(m.former) > 0 && rapid.IntRange(0, 3).Draw(t, "undo") == 0 {
					ordered = true
					e, _ := m.Undo(m.now)
					m.carry(e)
				}
			}
			m.settle(t, ordered, good)
			for range 30 {
				good = m.Good
				if _, did := m.step(); !did {
					break
				}
				m.settle(t, false, good)
			}
		}
		m.end(t)
	})
}

// settle notes what the key has refused, and compares.
func (m *model) settle(t *rapid.T, ordered bool, good Digest) {
	for c := range 5 {
		if m.IsRefused(digestOf(c)) {
			m.refuse(c)
		}
	}
	if m.Good != good {
		m.lost = make(map[Hash]bool)
	}
	m.look(t, ordered)
}

// end holds that a key rests once nothing happens any more: all clients have what the control plane
// sends, or it is held. It does not wait for clients, since there are some.
func (m *model) end(t *rapid.T) {
	m.Release(Frozen|Paused|NoRedis|NoOwner|MixedVersions, m.now)
	m.view.Verdict = Verdict{Outcome: Passes}
	for range 20 {
		if m.sleep(time.Hour).Why == ForApproval {
			if err := m.Approve(m.now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m.Phase != Held && (m.Phase != Idle || m.all != m.origin) {
		t.Fatalf("it rests as %v, all clients have %d of %d; next: %+v", m.State, m.all, m.origin, m.run())
	}
}
