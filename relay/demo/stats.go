package demo

import (
	"fmt"
	"slices"
	"time"
)

// reach is how far and how fast a change has come.
type reach struct {
	wanted, reached         int // clients that are not slow
	slowWanted, slowReached int
	skipped, rejected       int
	fromFile, fromRelay     spread
	slow                    spread // from the relay, of slow clients
}

// spread is how long something took for most, nearly all, and all.
type spread struct {
	p50, p99, max time.Duration
	known         bool
}

func (e *event) reach() reach {
	r := reach{wanted: e.wanted - e.slowWanted, slowWanted: e.slowWanted, skipped: e.skipped}
	for c := range e.waiting {
		if c.rejects(e.ref) {
			r.rejected++
		}
	}
	var file, relay, slow []time.Duration
	for _, a := range e.reached {
		if a.client.slow > 0 {
			r.slowReached++
			if a.fromRelay >= 0 {
				slow = append(slow, a.fromRelay)
			}
			continue
		}
		r.reached++
		file = append(file, a.fromFile)
		if a.fromRelay >= 0 {
			relay = append(relay, a.fromRelay)
		}
	}
	r.fromFile, r.fromRelay, r.slow = spreadOf(file), spreadOf(relay), spreadOf(slow)
	return r
}

func spreadOf(d []time.Duration) spread {
	if len(d) == 0 {
		return spread{}
	}
	slices.Sort(d)
	at := func(share int) time.Duration { return d[(len(d)*share+99)/100-1] } // nearest rank
	return spread{at(50), at(99), d[len(d)-1], true}
}

func (s spread) String() string {
	if !s.known {
		return "–"
	}
	return brief(s.p50) + " " + brief(s.p99) + " " + brief(s.max)
}

// brief writes a duration in about three digits.
func brief(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 0.995:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 9.95:
		return fmt.Sprintf("%.1fms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// size writes bytes in about three digits.
func size[T int | uint64](n T) string {
	f := float64(n)
	for _, unit := range []string{"B", "KB", "MB", "GB"} {
		switch {
		case f < 999.5 && (unit == "B" || f >= 99.5):
			return fmt.Sprintf("%.0f %s", f, unit)
		case f < 999.5:
			return fmt.Sprintf("%.1f %s", f, unit)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.1f TB", f)
}

// count writes a number with its thousands set apart.
func count[T int | uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// what says in a few words what a change is.
func (e *event) what() string {
	switch {
	case e.now == nil:
		return "− " + e.ref.String()
	case e.appears:
		return "+ " + e.ref.String()
	}
	return e.ref.String()
}

// perBody is how many responses each encoded body served.
func (t totals) perBody() string {
	if t.built == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", float64(t.responses)/float64(t.built))
}
