package quarantine

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Unix(1e9, 0)

// TestEvidence holds how many streams have to end after a request for a type until it is
// quarantined, and that a loss of the connection is no reason.
func TestEvidence(t *testing.T) {
	for name, tc := range map[string]struct {
		points int
		conns  []string // of the streams, the first ones of which end
		want   Place
	}{
		"proof":                            {Proof, []string{"a", "b"}, Waiting},
		"strong evidence once":             {Strong, []string{"a", "a"}, Main},
		"strong evidence twice":            {Strong, []string{"a", "b", "c"}, Waiting},
		"weak evidence twice":              {Weak, []string{"a", "a", "a"}, Main},
		"weak evidence three times":        {Weak, []string{"a", "a", "a", "a"}, Waiting},
		"weak evidence on new connections": {Weak, []string{"a", "b", "c", "d", "e", "f"}, Main},
		"none":                             {0, []string{"a", "a", "a", "a", "a", "a"}, Main},
	} {
		t.Run(name, func(t *testing.T) {
			var types Types
			types.Answered(kinds[0])
			for i, conn := range tc.conns {
				if i > 0 {
					types.StreamEnded([]Request{{kinds[0], start}, {kinds[1], start}}, Ending{tc.points, errEnd, tc.conns[i-1]}, start)
				}
				types.Reconnected(conn, start)
			}
			if got := types.State(kinds[1].URL); got.Place != tc.want {
				t.Errorf("the state is %v, expected %v", got, tc.want)
			}
			if got := types.State(kinds[0].URL); got != (State{Main, Harmless}) {
				t.Errorf("the state of a type with an answer is %v", got)
			}
		})
	}
}

// TestOneTypeStays holds that the first type stays on the main stream if no type is known to be
// harmless, and that types whose requests are old are harmless.
func TestOneTypeStays(t *testing.T) {
	var types Types
	all := []Request{{kinds[2], start}, {kinds[0], start}, {kinds[1], start}}
	types.StreamEnded(all, Ending{Proof, errEnd, "a"}, start)
	for i, want := range []Place{Main, Waiting, Waiting} {
		if got := types.State(kinds[i].URL); got.Place != want {
			t.Errorf("the state of type %d is %v, expected %v", i, got, want)
		}
	}
	var old Types
	old.StreamEnded(all, Ending{Proof, errEnd, "a"}, start.Add(Window))
	for i := range all {
		if got := old.State(kinds[i].URL); got != (State{Main, Harmless}) {
			t.Errorf("the state of type %d is %v", i, got)
		}
	}
}

// TestPauses holds when a type is probed whose probe streams all end, and when after streams that
// could not be opened or that this side has ended.
func TestPauses(t *testing.T) {
	var types Types
	types.Answered(kinds[0])
	types.StreamEnded([]Request{{kinds[1], start}}, Ending{Proof, errEnd, "a"}, start)
	now := start
	probe := func(end func(), want time.Duration) {
		t.Helper()
		d := types.Next(View{})
		if d.Act != Probe || d.At.Sub(now) != want {
			t.Fatalf("act %v after %v, expected a probe after %v", d.Act, d.At.Sub(now), want)
		}
		now = d.At
		types.StartProbe(d.Type, now)
		end()
	}
	ended := func() {
		types.ProbeOpened(true, now)
		types.ProbeEnded(Ending{Why: errEnd}, now)
	}
	failed := func() { types.ProbeFailed(now) }
	renewed := func() {
		types.ProbeOpened(true, now)
		types.ProbeRenewed(now)
	}
	probe(failed, FirstProbe)
	probe(renewed, 2*FirstProbe)
	probe(ended, 0)
	for pause := 2 * FirstProbe; pause < LastProbe; pause *= 2 {
		probe(ended, pause)
	}
	probe(ended, LastProbe)
	probe(ended, LastProbe)
}

// TestCaution holds that new types are requested on a probe stream first once a type has ended one.
func TestCaution(t *testing.T) {
	var types Types
	types.Answered(kinds[0])
	if may, _ := types.MayRequest(kinds[2], false, start); !may {
		t.Error("a new type is not requested")
	}
	types.StreamEnded([]Request{{kinds[1], start}}, Ending{Proof, errEnd, "a"}, start)
	types.StartProbe(kinds[1], start)
	types.ProbeOpened(true, start)
	types.ProbeEnded(Ending{Points: Proof, Why: errEnd}, start)
	for i, want := range []bool{true, false, true, false} {
		if may, c := types.MayRequest(kinds[i], i == 2, start); may != want || c.Effect&Report != 0 {
			t.Errorf("type %d: may be requested %v, expected %v, with the effect %06b", i, may, want, c.Effect)
		}
	}
	if d := types.Next(View{}); fmt.Sprint(d.Act, d.Type.URL, d.At) != fmt.Sprint(Probe, kinds[3].URL, start) {
		t.Errorf("next is %v of %s at %v", d.Act, d.Type.URL, d.At)
	}
}

// TestIncompleteAnswer holds that the rest of an answer is received on the probe stream (K13), for
// [Window] at most.
func TestIncompleteAnswer(t *testing.T) {
	var types Types
	types.StreamEnded([]Request{{kinds[0], start}, {kinds[1], start}}, Ending{Proof, errEnd, "a"}, start)
	types.StartProbe(kinds[1], start)
	if d := types.Next(View{}); d.Act != Nothing {
		t.Errorf("act %v while the stream is being opened", d.Act)
	}
	types.ProbeOpened(true, start)
	types.Answered(kinds[1])
	if d := types.Next(View{Since: start, Incomplete: true}); d.Act != Release || d.At != start.Add(Window) {
		t.Errorf("act %v after %v while frames may follow", d.Act, d.At.Sub(start))
	}
	if d := types.Next(View{Since: start}); d.Act != Release || d.At != start {
		t.Errorf("act %v after %v", d.Act, d.At.Sub(start))
	}
	if c := types.Release(start); c.Effect != Hide|Clear {
		t.Errorf("the effect is %06b", c.Effect)
	}
}

// TestCautionWithoutAnAnswer holds that a new type is requested on the main stream as long as no type
// is known to be harmless: otherwise nothing might be left there.
func TestCautionWithoutAnAnswer(t *testing.T) {
	var types Types
	types.StreamEnded([]Request{{kinds[0], start}, {kinds[1], start}}, Ending{Proof, errEnd, "a"}, start)
	types.StartProbe(kinds[1], start)
	types.ProbeOpened(true, start)
	types.ProbeEnded(Ending{Points: Proof, Why: errEnd}, start)
	if may, _ := types.MayRequest(kinds[2], false, start); !may {
		t.Error("a new type is not requested")
	}
}

// TestProbesThatEnd holds that operators are informed of a type that was quarantined as a precaution
// once three of its probe streams have ended, for any reason.
func TestProbesThatEnd(t *testing.T) {
	var types Types
	types.Answered(kinds[0])
	types.caution = Cautious
	types.MayRequest(kinds[1], false, start)
	for i := range 4 {
		types.StartProbe(kinds[1], start)
		types.ProbeOpened(true, start)
		c := types.ProbeEnded(Ending{Why: errEnd}, start)
		if got, want := c.Effect&Report != 0, i == 2; got != want {
			t.Errorf("end %d: operators are informed %v, expected %v", i+1, got, want)
		}
	}
}
