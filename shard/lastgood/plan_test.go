package lastgood

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestPlanStates: what a keeper does for a key after each event.
func TestPlanStates(t *testing.T) {
	names := [doings]string{"idle", "due", "writing", "outdated", "ending"}
	for e, want := range map[event][doings]string{
		changed:   {"due", "due", "outdated", "outdated", "ending"},
		begun:     {"writing", "writing", "writing", "outdated", "ending"},
		settled:   {"idle", "due", "idle", "due", "ending"},
		unsettled: {"idle", "due", "due", "due", "ending"},
		ended:     {"ending", "ending", "ending", "ending", "ending"},
	} {
		for from := range doing(doings) {
			p := plan{doing: from}
			if p.step(e); names[p.doing] != want[from] {
				t.Errorf("event %d in the state %s: %s, expected %s", e, names[from], names[p.doing], want[from])
			}
		}
	}
}

// TestPlanTimes: when a key is written and the store is checked.
func TestPlanTimes(t *testing.T) {
	const delay, pause = 10 * time.Second, time.Minute
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, test := range []struct {
		name string
		do   func(p *plan)
		want plan
	}{
		{"a change", func(p *plan) { p.changed(at(1), delay) }, plan{due, at(11), at(60)}},
		{"a second one", func(p *plan) { p.changed(at(1), delay); p.changed(at(5), delay) }, plan{due, at(11), at(60)}},
		{"a write", func(p *plan) {
			p.changed(at(1), delay)
			p.over(at(12), delay, outcome{turn: p.begin(at(11), pause)})
		}, plan{idle, time.Time{}, at(60)}},
		{"a change during a write", func(p *plan) {
			p.changed(at(1), delay)
			turn := p.begin(at(11), pause)
			p.changed(at(12), delay)
			p.over(at(13), delay, outcome{turn: turn})
		}, plan{due, at(23), at(60)}},
		{"a failed write", func(p *plan) {
			p.changed(at(1), delay)
			p.over(at(12), delay, outcome{turn: p.begin(at(11), pause), failed: true, pause: time.Second})
		}, plan{due, at(13), at(60)}},
		{"a change during a failed write", func(p *plan) {
			p.changed(at(1), delay)
			turn := p.begin(at(11), pause)
			p.changed(at(12), delay)
			p.over(at(13), delay, outcome{turn: turn, failed: true, pause: time.Minute})
		}, plan{due, at(73), at(60)}},
		{"a loss", func(p *plan) { p.lost(at(5)) }, plan{idle, time.Time{}, at(5)}},
		{"a loss during a write", func(p *plan) {
			p.changed(at(1), delay)
			turn := p.begin(at(11), pause)
			p.lost(at(12))
			p.over(at(13), delay, outcome{turn: turn})
		}, plan{idle, time.Time{}, at(12)}},
		{"a check", func(p *plan) {
			p.over(at(61), delay, outcome{turn: p.begin(at(60), pause)})
		}, plan{due, at(71), at(120)}},
		{"a change during a check", func(p *plan) {
			turn := p.begin(at(60), pause)
			p.changed(at(61), delay)
			p.over(at(62), delay, outcome{turn: turn})
		}, plan{due, at(72), at(120)}},
		{"a check before a write", func(p *plan) {
			p.changed(at(59), delay)
			p.over(at(61), delay, outcome{turn: p.begin(at(60), pause)})
		}, plan{due, at(69), at(120)}},
		{"a check with a write", func(p *plan) {
			p.changed(at(50), delay)
			p.over(at(61), delay, outcome{turn: p.begin(at(60), pause)})
		}, plan{idle, time.Time{}, at(120)}},
		{"the end", func(p *plan) { p.changed(at(1), delay); p.end() }, plan{ending, at(11), at(60)}},
		{"the end during a write", func(p *plan) {
			p.changed(at(1), delay)
			turn := p.begin(at(11), pause)
			p.end()
			p.changed(at(12), delay)
			p.over(at(13), delay, outcome{turn: turn})
		}, plan{ending, time.Time{}, at(60)}},
	} {
		p := plan{check: at(60)}
		if test.do(&p); p != test.want {
			t.Errorf("%s: %+v, expected %+v", test.name, p, test.want)
		}
	}
}

// loop is a goroutine per key that a plan replaces, as a model: it handles one thing after the other,
// and one signal stands for all changes since it received the last one.
type loop struct {
	due, check time.Time
	news, busy bool
}

func (l *loop) receive(now time.Time, delay time.Duration) {
	if l.news && !l.busy {
		if l.news = false; l.due.IsZero() {
			l.due = now.Add(delay)
		}
	}
}

func (l *loop) next() time.Time {
	if !l.due.IsZero() && l.due.Before(l.check) {
		return l.due
	}
	return l.check
}

// TestPlanModel: a plan does the same as the model, at the same times, whatever happens.
func TestPlanModel(t *testing.T) {
	const delay, pause = 10 * time.Second, time.Minute
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		now := time.Unix(1000, 0)
		p, l := plan{check: now}, loop{check: now}
		var is turn
		for step := range 200 {
			now = now.Add(time.Duration(random.IntN(8000)) * time.Millisecond)
			at, waits := p.next()
			if waits == l.busy || waits && (!at.Equal(l.next()) || p.doing == idle != p.write.IsZero()) {
				t.Fatalf("seed %d, step %d: %+v, %+v", seed, step, p, l)
			}
			switch {
			case random.IntN(3) == 0:
				l.news = true
				p.changed(now, delay)
			case waits && !now.Before(at):
				is = p.begin(now, pause)
				want := turn{!now.Before(l.check), !l.due.IsZero() && !now.Before(l.due)}
				if l.busy = true; is != want || is == (turn{}) {
					t.Fatalf("seed %d, step %d: a turn %+v, expected %+v", seed, step, is, want)
				}
				if is.check {
					l.check = now.Add(pause)
				}
			case !waits:
				o := outcome{turn: is, failed: is.write && random.IntN(2) == 0, pause: 3 * time.Second}
				p.over(now, delay, o)
				if o.check && l.due.IsZero() {
					l.due = now.Add(delay)
				}
				if o.write {
					if l.due = (time.Time{}); o.failed {
						l.due = now.Add(o.pause)
					}
				}
				l.busy = false
			}
			l.receive(now, delay)
		}
		if p.end(); p.doing != ending {
			t.Fatal("it does not end")
		}
	}
}
