package demand

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The model has sets of names in place of states, numbers and lists. Its control planes follow the
// requests, so that the test sees what they believe the relay holds.

// modelInterest is an interest in the model.
type modelInterest struct {
	subs     map[int]bool // empty while it lingers
	shed     bool
	waits    bool // nothing was received of the name when it was asked for, or since
	answered bool
	asks     int // how often it was asked for again after it was shed
}

// modelStream is an upstream stream in the model, and its control plane.
type modelStream struct {
	holds    map[string]bool        // what the control plane is subscribed to
	ghosts   map[string]bool        // what else it may take for subscribed
	sent     map[string]bool        // what else it does, because it has sent a resource of it
	wild     bool                   // it is subscribed to the wildcard
	included map[*modelInterest]int // what the next answer answers, with its asks
	over     bool                   // the stream has ended: everything has to be taken
	second   map[string]bool        // what the control plane of a second stream is subscribed to; nil if there is none
	differs  bool                   // the control plane sends differences
}

type machine struct {
	d       Demand[int]
	now     time.Time
	names   map[string]*modelInterest
	wild    *modelInterest
	streams [2]modelStream
	known   map[string]bool // something was received of the name
	began   map[string]int  // how often an interest in the name has begun
}

const emptyGlob = "g0"

var modelNames = []string{"a0", "b0", "c0", emptyGlob, "a1", "b1", "nobody"}

func route(name string) int {
	switch name[1] {
	case '0':
		return 0
	case '1':
		return 1
	}
	return Nobody
}

func newMachine(wild int) *machine {
	m := &machine{now: time.Unix(1000, 0), names: make(map[string]*modelInterest), known: make(map[string]bool), began: make(map[string]int)}
	m.d = New[int](Config{Route: route, Wildcard: wild, Bounds: []int{0, 30}, EmptyGlob: func(name string) bool { return name == emptyGlob }})
	for i := range m.streams {
		m.streams[i] = modelStream{holds: make(map[string]bool), ghosts: make(map[string]bool), sent: make(map[string]bool), included: make(map[*modelInterest]int)}
	}
	return m
}

func name(t *rapid.T) string { return rapid.SampledFrom(modelNames).Draw(t, "name") }
func sub(t *rapid.T) int     { return rapid.IntRange(1, 3).Draw(t, "subscription") }

func (m *machine) join(t *rapid.T) {
	n, s := name(t), sub(t)
	w := m.d.Get(n)
	if w == nil {
		w = m.d.Begin(n, "")
		m.d.Ask(w, n, !m.known[n])
		m.began[n]++
		m.names[n] = &modelInterest{subs: make(map[int]bool), waits: !m.known[n] && route(n) != Nobody, answered: route(n) == Nobody}
	}
	w.Unbook()
	m.d.Join(w, s)
	m.names[n].subs[s] = true
}

func (m *machine) leave(t *rapid.T) {
	n, s := name(t), sub(t)
	w := m.names[n]
	if w == nil || !w.subs[s] {
		return
	}
	delete(w.subs, s)
	if last := m.d.Leave(m.d.Get(n), s, m.now); last != (len(w.subs) == 0) {
		t.Fatalf("that %d was the last subscription of %q: %t", s, n, last)
	} else if last && rapid.Bool().Draw(t, "linger") {
		m.d.Get(n).Linger(time.Minute)
	}
}

// end ends the interest in a name that lingers. idle says that no stream is sent that.
func (m *machine) end(t *rapid.T, idle bool) {
	n := name(t)
	if w := m.names[n]; w == nil || len(w.subs) > 0 {
		return
	}
	m.d.End(m.d.Get(n), n)
	delete(m.names, n)
	if idle {
		m.d.Discard(n)
		for i := range m.streams {
			m.streams[i].over = true
		}
	}
}

// drop ends the interest in a name.
func (m *machine) drop(t *rapid.T) {
	n := name(t)
	w := m.names[n]
	if w == nil {
		return
	}
	for s := range w.subs {
		m.d.Leave(m.d.Get(n), s, m.now)
	}
	m.d.End(m.d.Get(n), n)
	delete(m.names, n)
}

func (m *machine) joinWildcard(t *rapid.T) {
	s := sub(t)
	if begins := m.d.JoinWildcard(s); begins != (m.wild == nil) {
		t.Fatalf("the interest in the wildcard begins: %t", begins)
	}
	if m.wild == nil {
		m.wild = &modelInterest{subs: make(map[int]bool), answered: m.d.Wildcard().Stream() == Nobody}
	}
	m.wild.subs[s] = true
}

func (m *machine) leaveWildcard(t *rapid.T) {
	s := sub(t)
	if m.wild == nil || !m.wild.subs[s] {
		return
	}
	delete(m.wild.subs, s)
	m.d.LeaveWildcard(s, m.now)
}

func (m *machine) endWildcard(t *rapid.T) {
	if m.wild == nil || len(m.wild.subs) > 0 {
		return
	}
	stream := m.d.Wildcard().Stream()
	if asked := m.d.EndWildcard(); stream != Nobody && asked != m.streams[stream].wild {
		t.Fatalf("the control plane was asked for the wildcard: %t", asked)
	}
	m.wild = nil
}

func (m *machine) shed(t *rapid.T) {
	n := name(t)
	w := m.names[n]
	if w == nil || w.shed || route(n) == Nobody {
		return
	}
	over := rapid.Bool().Draw(t, "the stream has ended")
	m.d.Shed(m.d.Get(n), n, over)
	w.shed = true
	m.streams[route(n)].over = m.streams[route(n)].over || over
}

func (m *machine) askAgain(t *rapid.T) {
	n := name(t)
	w := m.names[n]
	if w == nil || !w.shed {
		return
	}
	m.d.AskAgain(m.d.Get(n), n, !m.known[n])
	w.shed, w.answered, w.waits = false, false, w.waits || !m.known[n]
	w.asks++
}

// learn: something is received of a name.
func (m *machine) learn(t *rapid.T) {
	n := name(t)
	m.known[n] = true
	if w := m.names[n]; w != nil {
		m.d.Close(m.d.Get(n), n)
		w.waits = false
	}
}

// forget: what was received of a name is forgotten.
func (m *machine) forget(t *rapid.T) {
	n := name(t)
	w := m.names[n]
	if m.known[n] = false; w != nil && !w.answered {
		m.d.Reopen(m.d.Get(n), n)
		w.waits = true
	}
}

// presume: content that was restored counts as an answer, or not.
func (m *machine) presume(t *rapid.T) {
	n := name(t)
	w := m.names[n]
	if w == nil || route(n) == Nobody {
		return
	}
	seq := m.d.Presume(m.d.Get(n))
	if !m.d.Answered(m.d.Get(n)) {
		t.Fatalf("%q is not answered", n)
	}
	if rapid.Bool().Draw(t, "it counts") {
		m.d.Close(m.d.Get(n), n)
		w.answered, w.waits = true, false
		return
	}
	m.d.Retract(m.d.Get(n), seq)
}

// ghost: a control plane sends a resource without interest in it, or one that is released.
func (m *machine) ghost(t *rapid.T) {
	n := name(t)
	if route(n) == Nobody || m.names[n] != nil {
		return
	}
	s := &m.streams[route(n)]
	switch {
	case s.differs && rapid.Bool().Draw(t, "it arrives"):
		m.d.AddGhost(route(n), n, n)
		m.d.BoundGhosts(route(n))
		s.ghosts[n], s.sent[n] = true, true
	case rapid.Bool().Draw(t, "the wildcard brought it"):
		m.d.Release(route(n), n, n, true)
		s.ghosts[n] = true
	default:
		m.d.Release(route(n), n, n, false)
		s.ghosts[n] = s.ghosts[n] || s.differs
	}
}

func (m *machine) differences(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "stream")
	m.d.SendsDifferences(i)
	m.streams[i].differs = true
}

// openSecond: a second stream is opened, and asks for what the first one was asked for.
func (m *machine) openSecond(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "stream")
	s := &m.streams[i]
	if s.over {
		return
	}
	wild := m.streams[i].wild
	r := m.d.Asked(i, 1, func() { m.meanwhile(t) })
	if r.Wildcard != wild || r.WildcardChanged != wild {
		t.Fatalf("asked for the wildcard: %t, expected %t", r.Wildcard, wild)
	}
	s.second = make(map[string]bool)
	for _, n := range r.Subscribe {
		s.second[n] = true
	}
}

func (m *machine) answer(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "stream")
	m.d.Answer(i, rapid.SampledFrom([]int{0, 2, 99}).Draw(t, "step"))
	for w, asks := range m.streams[i].included {
		w.answered = w.answered || w.asks == asks
	}
	if m.d.Stream(i).Outdated() {
		m.d.ForgetAnswered(i, 1, func() { m.meanwhile(t) })
	}
}

func (m *machine) fit(t *rapid.T) { m.d.Fit(1, func() { m.meanwhile(t) }) }

// meanwhile is what others do between two steps.
func (m *machine) meanwhile(t *rapid.T) {
	acts := []func(*rapid.T){func(*rapid.T) {}, m.join, m.leave, func(t *rapid.T) { m.end(t, false) }, m.drop, m.drop, m.joinWildcard, m.leaveWildcard, m.learn, m.askAgain}
	rapid.SampledFrom(acts).Draw(t, "meanwhile")(t)
}

// take: a stream takes what has changed, or everything, while others may change the demand. Then it
// may do so once more without them.
func (m *machine) take(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "stream")
	all := m.streams[i].over || rapid.Bool().Draw(t, "all")
	ends := rapid.IntRange(0, 20).Draw(t, "steps until the stream ends")
	m.takeOnce(t, i, all, func() bool {
		if m.meanwhile(t); rapid.IntRange(0, 4).Draw(t, "fit if 0") == 0 {
			m.d.Fit(99, func() {})
		}
		ends--
		return ends == 0
	})
	if rapid.Bool().Draw(t, "once more") {
		m.takeOnce(t, i, m.streams[i].over, nil)
	}
}

// wanted returns what a stream has to be asked for.
func (m *machine) wanted(stream int) map[string]bool {
	all := make(map[string]bool)
	for n, w := range m.names {
		if route(n) == stream && !w.shed {
			all[n] = true
		}
	}
	return all
}

// takeOnce is one Take. meanwhile runs between the steps, and reports whether the stream ends; nil if
// nothing happens meanwhile.
func (m *machine) takeOnce(t *rapid.T, i int, all bool, meanwhile func() bool) {
	s, over := &m.streams[i], false
	pause := func() {
		if meanwhile != nil && !over {
			over = meanwhile()
		}
	}
	before, began := m.wanted(i), maps.Clone(m.began)
	included := make(map[*modelInterest]int)
	for n, w := range m.names {
		if route(n) == i {
			included[w] = w.asks
		}
	}
	if m.wild != nil && m.d.Wildcard().Stream() == i {
		included[m.wild] = 0
	}
	wild := m.d.WildcardOn(i)
	tk := m.d.Take(i, all, func() bool { return over })
	tk.Reserve(true)
	tk.Changes(1, pause)
	if all {
		tk.Whole(1, pause)
	}
	tk.Names(1, pause)
	s.wild = wild
	if over {
		s.over = true
		return
	}
	news := tk.Finish(1)
	r := tk.Request()
	s.included = included
	if all {
		s.over, s.second = false, nil
		clear(s.holds)
		clear(s.ghosts)
		clear(s.sent)
	}
	m.follow(t, s, r, all, meanwhile != nil)
	s.followSecond(r)
	for _, n := range slices.Concat(r.Names, r.Subscribe) {
		if !before[n] {
			t.Fatalf("%q is taken, but was not wanted at the beginning", n)
		}
	}
	if all && meanwhile != nil { // what began and ended meanwhile may be unsubscribed without need
		for n := range m.began {
			s.ghosts[n] = true
		}
	}
	if news != (r.WildcardChanged || len(r.Subscribe)+len(r.Unsubscribe) > 0) {
		t.Fatalf("there is something to ask: %t, for %+v", news, r)
	}
	if r.Wildcard != wild {
		t.Fatalf("asked for the wildcard: %t, expected %t", r.Wildcard, wild)
	}
	for n := range before {
		if m.wanted(i)[n] && m.began[n] == began[n] && (!s.holds[n] || !slices.Contains(r.Names, n)) {
			t.Fatalf("%q was wanted all the time, but the control plane has %v, and the names are %v", n, s.holds, r.Names)
		}
	}
	if meanwhile != nil {
		return
	}
	if want := m.wanted(i); s.second != nil && !maps.Equal(s.second, want) {
		t.Fatalf("the control plane of the second stream has %v, expected %v", s.second, want)
	}
	if want := m.wanted(i); !maps.Equal(s.holds, want) || !slices.Equal(r.Names, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("the control plane has %v, and the names are %v, expected %v", s.holds, r.Names, want)
	}
}

// followSecond makes the control plane of the second stream follow a request.
func (s *modelStream) followSecond(r Request) {
	if s.second == nil {
		return
	}
	for _, n := range r.Unsubscribe {
		delete(s.second, n)
	}
	for _, n := range r.Subscribe {
		s.second[n] = true
	}
}

// follow makes the control plane follow a request.
func (m *machine) follow(t *rapid.T, s *modelStream, r Request, all, others bool) {
	for _, n := range r.Unsubscribe {
		if !s.holds[n] && !s.ghosts[n] {
			t.Fatalf("%q is unsubscribed, but the control plane does not have it", n)
		}
		s.ghosts[n] = s.differs // a response may cross it
		delete(s.holds, n)
		delete(s.sent, n)
	}
	for _, n := range r.Subscribe {
		again := slices.Contains(r.Again, n)
		if (s.holds[n] || s.sent[n]) && !again || !all && again && !s.holds[n] && !s.ghosts[n] {
			t.Fatalf("%q is subscribed again: %t, the control plane has it: %t, or may: %t", n, again, s.holds[n], s.ghosts[n])
		}
		s.holds[n] = true
		delete(s.ghosts, n)
		delete(s.sent, n)
	}
	for _, n := range r.Again {
		if !slices.Contains(r.Subscribe, n) && !(all && others) { // its interest may have ended meanwhile
			t.Fatalf("%q is asked for again, but not subscribed", n)
		}
	}
	for _, n := range r.Twice {
		if !slices.Contains(r.Again, n) {
			t.Fatalf("%q is unsubscribed twice, but not asked for again", n)
		}
	}
}

// check compares the demand with the model.
func (m *machine) check(t *rapid.T) {
	if wrong := m.d.Check(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if m.d.Len() != len(m.names) {
		t.Fatalf("%d names with interest, expected %d", m.d.Len(), len(m.names))
	}
	for n, want := range m.names {
		w := m.d.Get(n)
		if w == nil {
			t.Fatalf("there is no interest in %q", n)
		}
		if got := slices.Collect(w.Subscribers().All()); len(got) != len(want.subs) || w.Lingers() != (len(got) == 0) || !w.Demanded() {
			t.Fatalf("%q has subscriptions %v, expected %v; it lingers: %t", n, got, want.subs, w.Lingers())
		}
		if w.Shed() != want.shed || m.d.Answered(w) != want.answered {
			t.Fatalf("%q is shed: %t, expected %t; answered: %t, expected %t", n, w.Shed(), want.shed, m.d.Answered(w), want.answered)
		}
		open := want.waits && (!want.answered || n == emptyGlob)
		if got := m.d.Open(w, n); got != open {
			t.Fatalf("%q waits for an answer: %t, expected %t", n, got, open)
		}
		one := map[string]struct{}{n: {}}
		if route(n) != Nobody && m.d.OpenAmong(route(n), one, "", func(string) bool { return true }) != open {
			t.Fatalf("%q waits for an answer among its subscription's names: %t", n, !open)
		}
	}
	if got, want := m.d.WildcardAnswered(), m.wild != nil && m.wild.answered; got != want {
		t.Fatalf("the wildcard is answered: %t, expected %t", got, want)
	}
}

// TestModel compares a demand with sets of names, whatever clients ask for, and whatever streams take
// and answer, also while they take in steps.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(rapid.IntRange(Nobody, 1).Draw(t, "stream of the wildcard"))
		t.Repeat(map[string]func(*rapid.T){
			"join": m.join, "leave": m.leave, "end": func(t *rapid.T) { m.end(t, false) }, "end while idle": func(t *rapid.T) { m.end(t, true) },
			"join wildcard": m.joinWildcard, "leave wildcard": m.leaveWildcard, "end wildcard": m.endWildcard,
			"shed": m.shed, "ask again": m.askAgain, "learn": m.learn, "forget": m.forget, "presume": m.presume,
			"ghost": m.ghost, "differences": m.differences, "open a second stream": m.openSecond, "answer": m.answer, "fit": m.fit, "take": m.take, "": m.check,
		})
	})
}
