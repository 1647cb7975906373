package quarantine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

var (
	errEnd = errors.New("unknown type")
	kinds  = []*resource.Type{
		resource.TypeOf("type.googleapis.com/test.A"), resource.TypeOf("type.googleapis.com/test.B"),
		resource.TypeOf("type.googleapis.com/test.C"), resource.TypeOf("type.googleapis.com/test.D"),
	}
)

// script drives the types of one server as the shell does. Events of the two streams cross in any
// order.
type script struct {
	Types
	now     time.Time
	main    map[*resource.Type]time.Time // requests of the main stream, nil while there is none
	conn    int
	since   time.Time // request of the probe stream
	partial bool      // its answer may be incomplete
	shown   map[string]bool
	cleared map[string]bool // types that were released
	problem string
}

// inform applies the effects of changes as operators see them.
func (s *script) inform(changes ...Change) {
	for _, c := range changes {
		if c.Type == nil {
			continue
		}
		was, url := s.shown[c.Type.URL], c.Type.URL
		switch {
		case c.Effect&Show != 0 && was, c.Effect&Hide != 0 && !was:
			s.problem = fmt.Sprintf("%s: %06b while shown is %v", url, c.Effect, was)
		case c.Effect&Report != 0 && (c.Effect&Show == 0 || c.Why == nil), c.Effect&Clear != 0 && c.Effect&Hide == 0:
			s.problem = fmt.Sprintf("%s: %06b, because of %v", url, c.Effect, c.Why)
		}
		s.shown[url] = c.Effect&Show != 0 || was && c.Effect&Hide == 0
	}
}

// want is what a demand for a type causes.
func (s *script) want(typ *resource.Type) {
	if s.main == nil {
		return
	}
	_, requested := s.main[typ]
	may, c := s.MayRequest(typ, requested, s.now)
	s.inform(c)
	if may {
		s.main[typ] = s.now
	}
}

// endMain ends the main stream, or opens one on the same or another connection.
func (s *script) endMain(points int, sameConn bool) {
	if s.main == nil {
		if !sameConn {
			s.conn++
		}
		s.inform(s.Reconnected(fmt.Sprint(s.conn), s.now)...)
		s.main = make(map[*resource.Type]time.Time)
		return
	}
	var requested []Request
	for typ, since := range s.main {
		requested = append(requested, Request{typ, since})
	}
	s.inform(s.StreamEnded(requested, Ending{points, errEnd, fmt.Sprint(s.conn)}, s.now)...)
	s.main = nil
}

// next does what is due.
func (s *script) next(reachable bool) {
	d := s.Next(View{s.since, s.partial})
	switch {
	case d.Act == Nothing || d.At.After(s.now):
	case d.Act == Release:
		s.inform(s.Release(s.now))
		s.cleared[d.Type.URL] = true
		s.want(d.Type)
	case reachable:
		s.StartProbe(d.Type, s.now)
	default:
		s.Postpone(d.Type, s.now)
	}
}

// probe makes something happen to the probe stream.
func (s *script) probe(what, points int) {
	switch p := s.probed; {
	case p == nil:
	case p.Place == Opening:
		switch what % 3 {
		case 0:
			s.ProbeFailed(s.now)
		case 1:
			s.inform(s.ProbeOpened(false, s.now))
		default:
			s.inform(s.ProbeOpened(true, s.now))
			s.since, s.partial = s.now, false
		}
	default:
		switch what {
		case 0:
			s.ProbeRenewed(s.now)
		case 1:
			s.inform(s.ProbeEnded(Ending{Points: points, Why: errEnd}, s.now))
		default:
			s.Answered(p.typ)
			s.partial = what == 2
		}
	}
}

// wrong returns what contradicts itself; empty if nothing does.
func (s *script) wrong() string {
	probed, harmless, main, waiting := 0, 0, 0, 0
	for url, st := range s.all {
		if st.IsProbed() {
			probed++
		}
		if st.IsHarmless() {
			harmless++
		}
		switch st.Place {
		case Main:
			main++
			if st.schedule != nil || st.points >= Proof && !st.IsHarmless() {
				return url + " is on the main stream with a schedule, or in spite of the evidence"
			}
		case Waiting:
			waiting++
			if st.due.After(s.now.Add(LastProbe)) || st.due.IsZero() {
				return fmt.Sprintf("%s is due at %v, and it is %v", url, st.due, s.now)
			}
		}
		if st.IsQuarantined() && (st.pause < 2*FirstProbe || st.pause > LastProbe) {
			return fmt.Sprintf("%s: the pause is %v", url, st.pause)
		}
		if st.IsQuarantined() && s.cleared[url] {
			return url + " was harmless and is quarantined again"
		}
		if visible := st.IsQuarantined() && st.Place != Unwanted && reported.Has(st.Verdict); visible != s.shown[url] {
			return fmt.Sprintf("%s is %v, and shown is %v", url, st.State, s.shown[url])
		}
	}
	for typ := range s.main {
		if s.State(typ.URL).IsQuarantined() {
			return typ.URL + " is quarantined, and the main stream has requested it"
		}
	}
	d := s.Next(View{s.since, s.partial})
	switch {
	case probed > 1 || (probed == 1) != (s.probed != nil):
		return fmt.Sprintf("%d types are probed", probed)
	case harmless != s.harmless:
		return fmt.Sprintf("%d types are harmless, counted as %d", harmless, s.harmless)
	case harmless == 0 && main == 0 && len(s.all) > 0:
		return "no type is left on the main stream"
	case waiting > 0 && probed == 0 && d.Act != Probe:
		return "a type waits, and nothing will be done"
	case s.probed != nil && s.probed.Place == Probing && d.Act != Release:
		return "a type is probed without end"
	}
	return s.problem
}

// TestRandomEvents holds over random sequences of events that at most one type is probed, that a
// harmless type stays on the main stream, that each quarantined type that clients want is probed
// some time, and that operators see exactly the types that they were informed of.
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &script{now: time.Unix(1e9, 0), shown: make(map[string]bool), cleared: make(map[string]bool)}
		if rapid.Bool().Draw(t, "jitter") {
			s.Jitter = func(d time.Duration) time.Duration { return d * 4 / 5 }
		}
		points := rapid.SampledFrom([]int{0, Weak, Strong, Proof})
		typ := rapid.SampledFrom(kinds)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				s.now = s.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, FirstProbe, Window, LastProbe}).Draw(t, "pause"))
			case 1, 2:
				s.want(typ.Draw(t, "type"))
			case 3:
				s.endMain(points.Draw(t, "points"), rapid.Bool().Draw(t, "same connection"))
			case 4:
				if answered := typ.Draw(t, "answered"); !s.main[answered].IsZero() {
					s.Answered(answered)
				}
			case 5:
				s.next(rapid.IntRange(0, 3).Draw(t, "unreachable") > 0)
			case 6:
				s.probe(rapid.IntRange(0, 3).Draw(t, "probe"), points.Draw(t, "points"))
			}
			if wrong := s.wrong(); wrong != "" {
				t.Fatal(wrong)
			}
		}
		s.inform(s.Close(s.now)...)
		for url, shown := range s.shown {
			if shown {
				t.Fatalf("%s is still shown", url)
			}
		}
	})
}
